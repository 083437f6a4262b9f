import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { compiled } from '../../support/process/compiled.ts';

const WORKER = fileURLToPath(new URL('./worker.ts', import.meta.url));
const running = new Set<ChildProcess>();

export interface Worker {
  readonly pid: number;
  /**
   * The next message of this kind, or one that has come already. Rejects if the process ends
   * without.
   */
  said(what: string): Promise<Record<string, unknown>>;
  tell(word: string): void;
  kill(signal: NodeJS.Signals): void;
  readonly exited: Promise<number | null>;
}

/** Another process with locks in this Redis. */
export function startWorker(url: string, task: string, ...args: string[]): Worker {
  const child = spawn(
    process.execPath,
    ['--unhandled-rejections=strict', compiled(WORKER), url, task, ...args],
    {
      stdio: ['pipe', 'pipe', 'pipe'],
    },
  );
  running.add(child);
  let stderr = '';
  child.stderr.on('data', (data: Buffer) => {
    stderr += data.toString();
  });
  child.stdin.on('error', () => {});
  const messages: Record<string, unknown>[] = [];
  const wake: Array<() => void> = [];
  const notify = (): void => {
    for (const each of wake.splice(0)) each();
  };
  createInterface({ input: child.stdout }).on('line', (line) => {
    messages.push(JSON.parse(line) as Record<string, unknown>);
    notify();
  });
  const exited = new Promise<number | null>((resolve) => {
    child.once('exit', (code) => {
      running.delete(child);
      resolve(code);
    });
  });
  let isOver = false;
  // Not `exit`: its last lines may come after that.
  child.once('close', () => {
    isOver = true;
    notify();
  });
  return {
    pid: child.pid ?? -1,
    exited,
    tell: (word) => void child.stdin.write(`${word}\n`),
    kill: (signal) => void child.kill(signal),
    async said(what) {
      for (;;) {
        const found = messages.find((message) => message.what === what);
        if (found !== undefined) return found;
        if (isOver) throw new Error(`the worker ended without saying "${what}": ${stderr}`);
        await new Promise<void>((resolve) => wake.push(resolve));
      }
    },
  };
}

/** Kills the processes that a failed test has left, also paused ones. */
export function stopWorkers(): void {
  for (const child of running) child.kill('SIGKILL');
}
