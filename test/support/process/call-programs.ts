import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { compiled } from './compiled.ts';

const CALLER = fileURLToPath(new URL('./caller.ts', import.meta.url));
/** No call takes longer than this, in any situation. */
const CALL_MS = 30_000;
/** How long a program may run after its last message. */
const END_MS = 10_000;

/** What happens around one call. */
export interface Situation {
  readonly name: string;
  /** The program has opened its locks, and is about to make the call. */
  before(call: string): Promise<void>;
  /** The call is pending. */
  during(call: string): Promise<void>;
  /** The call has settled; the program closes its locks next. */
  after?(): void;
}

/** The outcome of each call, by its name: `done`, `rejected CODE`, or a violation. */
export type Outcomes = Record<string, string>;

/**
 * Makes the calls one after the other in one program. When the program ends during one, another
 * program makes the rest.
 */
export async function makeCalls(
  url: string,
  situation: Situation,
  calls: readonly string[],
): Promise<Outcomes> {
  const outcomes: Outcomes = {};
  for (let left = [...calls]; left.length > 0; ) {
    Object.assign(outcomes, await runProgram(url, situation, left));
    left = left.filter((call) => outcomes[call] === undefined);
  }
  return outcomes;
}

async function runProgram(url: string, situation: Situation, calls: readonly string[]): Promise<Outcomes> {
  const child = spawn(
    process.execPath,
    ['--unhandled-rejections=strict', compiled(CALLER), url, situation.name, ...calls],
    { stdio: ['pipe', 'pipe', 'pipe'] },
  );
  let stderr = '';
  child.stderr.on('data', (data: Buffer) => {
    stderr += data.toString();
  });
  child.stdin.on('error', () => {});
  const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
  const outcomes: Outcomes = {};
  let current = calls[0] ?? '';
  let last = 'started';
  const limitOf = (ms: number): NodeJS.Timeout => setTimeout(() => child.kill('SIGKILL'), ms);
  let limit = limitOf(CALL_MS);
  for await (const line of createInterface({ input: child.stdout })) {
    clearTimeout(limit);
    const [word = '', call = '', ...rest] = line.split(' ');
    last = word;
    limit = limitOf(word === 'end' ? END_MS : CALL_MS);
    if (word === 'ready') {
      current = call;
      await situation.before(call);
      child.stdin.write('.');
    } else if (word === 'began') {
      await situation.during(current);
    } else if (word === 'answered') {
      situation.after?.();
      child.stdin.write('.');
    } else if (word === 'outcome') {
      outcomes[call] = rest.join(' ');
    } else if (word === 'failed') {
      outcomes[current] = line;
    }
  }
  const [code, signal] = await closed;
  clearTimeout(limit);
  const said = stderr === '' ? '' : `, saying ${stderr.trim().slice(-500)}`;
  if (last === 'end' && code === 0 && said === '') return outcomes;
  const where = last === 'end' ? (calls.at(-1) ?? '') : current;
  const how = signal === null ? `ended with ${code}` : `did not end (${signal})`;
  outcomes[where] = `${outcomes[where] ?? ''} ${how} after "${last}"${said}`.trim();
  return outcomes;
}
