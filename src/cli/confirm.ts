import { createInterface } from 'node:readline';

/** Whether a person can be asked. The output may go elsewhere: questions go to standard error. */
export function canAsk(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/** Asks on the terminal. Only `y` and `yes` are a yes; the end of the input is a no. */
export async function confirm(question: string): Promise<boolean> {
  process.stderr.write(`${question} [y/N] `);
  // Not in raw mode: Ctrl-C ends the process as usual.
  const input = createInterface({ input: process.stdin, terminal: false });
  const answer = await new Promise<string>((resolve) => {
    input.once('line', resolve);
    input.once('close', () => resolve(''));
  });
  input.close();
  return /^\s*y(?:es)?\s*$/i.test(answer);
}
