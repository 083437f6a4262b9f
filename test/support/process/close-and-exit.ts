import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { compiled } from './compiled.ts';

const PROGRAM = fileURLToPath(new URL('./close-and-exit-program.ts', import.meta.url));

/** The expected output. */
export const EXITED_AT_ONCE = 'closed and ended at once with 0\n';

/**
 * Runs a process that uses the store of this URL in many ways and closes it. Resolves to its
 * output, which includes how it ended.
 */
export async function closeAndExit(url: string): Promise<string> {
  // On a stalled machine one exit may be late; a handle that keeps the process alive delays every
  // one.
  for (let tries = 1; ; tries += 1) {
    const output = await outputOf(PROGRAM, [url]);
    if (output === EXITED_AT_ONCE || tries === 3) return output;
  }
}

/**
 * Runs a script. Resolves to its output and, unless it succeeded, to how it ended. Code 13 means that
 * nothing was left that could settle what it awaits, so the rest of the script never ran.
 */
export async function outputOf(script: string, args: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, ['--unhandled-rejections=strict', compiled(script), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  let output = '';
  child.stdout.on('data', (data: Buffer) => {
    output += data.toString();
  });
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  return code === 0 ? output : `${output} and ended with ${code ?? signal}`;
}
