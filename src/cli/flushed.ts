import { constants } from 'node:os';

/**
 * Resolves when the readers of standard output and standard error have taken everything. A pipe
 * takes 64 KiB; what is left of the output would be lost with the process. A signal ends the wait,
 * and the process.
 */
export async function flushed(): Promise<void> {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const)
    process.once(signal, () => process.exit(128 + constants.signals[signal]));
  for (const stream of [process.stdout, process.stderr]) {
    if (stream.writableLength === 0) continue;
    await new Promise<void>((resolve) => {
      stream.once('error', () => resolve());
      stream.write('', () => resolve());
    });
  }
}
