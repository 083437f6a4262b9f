import { constants } from 'node:os';
import type { Use } from '../../use.ts';
import { EXIT } from '../exit-code.ts';
import { withLocks } from '../with-locks.ts';
import { ChangeLog } from './change-log.ts';
import { LiveTable } from './live-table.ts';
import { Scanner } from './scanner.ts';

export interface WatchOptions {
  readonly json?: boolean;
  readonly use?: Use;
}

const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** A live table on a terminal; elsewhere, and with `--json`, a line for each change. */
export async function watch(url: string, prefix: string, options: WatchOptions): Promise<number> {
  const { stdin, stdout, env } = process;
  const isLive = stdin.isTTY && stdout.isTTY && options.json !== true && env.TERM !== 'dumb';
  return await withLocks(url, async (locks) => {
    const scanned = { prefix, use: options.use };
    if (isLive) return await new LiveTable(locks, scanned).run(signalled());
    const scanner = new Scanner(locks, scanned, new ChangeLog(options.json === true));
    return await Promise.race([scanner.run().then(() => EXIT.ok), signalled()]);
  });
}

/** Resolves to the exit code when a signal asks the process to end. */
function signalled(): Promise<number> {
  return new Promise((resolve) => {
    for (const signal of ENDING) process.once(signal, () => resolve(128 + constants.signals[signal]));
  });
}
