import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { compiled } from './compiled.ts';

const LEAVER = fileURLToPath(new URL('./leaver.ts', import.meta.url));

/** What is expected of it. */
export const LEFT = 'closed and ended at once with 0\n';

/** Runs a process that uses the store of this URL in many ways and closes it. Resolves to what it says of that, and of its end. */
export async function leave(url: string): Promise<string> {
  // On a machine that stands still anything is late now and then; what keeps a process alive does so each time.
  for (let tries = 1; ; tries += 1) {
    const output = await outputOf(LEAVER, [url]);
    if (output === LEFT || tries === 3) return output;
  }
}

/**
 * Runs a script and resolves to what it says and, unless it has ended well, to how it ended. Code 13 means that nothing was left which could have settled what it awaits: what
 * comes after that is then never done.
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
