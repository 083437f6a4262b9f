import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const LEAVER = fileURLToPath(new URL('./leaver.ts', import.meta.url));

/** What is expected of it. Code 13 would mean that nothing was left which could have settled what it awaits: what comes after a close is then never done. */
export const LEFT = 'closed and ended at once with 0\n';

/** Runs a process that uses the store of this URL in many ways and closes it. Resolves to what it says of that, and of its end. */
export async function leave(url: string): Promise<string> {
  const child = spawn(process.execPath, ['--import', 'tsx', '--unhandled-rejections=strict', LEAVER, url], {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  let output = '';
  child.stdout.on('data', (data: Buffer) => {
    output += data.toString();
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return output.endsWith('\n') ? output : `${output} and ended with ${code}`;
}
