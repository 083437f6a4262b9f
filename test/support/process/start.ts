import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Store } from '../../../src/store/store.ts';
import { closed, type Ending } from './closed.ts';
import { compiled } from './compiled.ts';
import { type Interference, serveStore } from './remote-store.ts';

const SCENARIOS = fileURLToPath(new URL('./scenarios.ts', import.meta.url));

export interface Started {
  readonly child: ChildProcess;
  readonly pid: number;
  /** The next message of the child under this heading, or an earlier one. */
  heard(what: string): Promise<Record<string, unknown>>;
  tell(what: string): void;
  /** When all that it said and printed has arrived. */
  readonly exited: Promise<Ending>;
  readonly stderr: () => string;
}

const running = new Set<ChildProcess>();

/** Ends processes that a failed test has left, also paused ones. */
export function endProcesses(): void {
  for (const child of running) child.kill('SIGKILL');
}

/** Starts one scenario in a process of its own, with the store reachable from it. */
export function startScenario(scenario: string, store: Store, interfere?: Interference): Started {
  const child = fork(compiled(SCENARIOS), [scenario], {
    execArgv: ['--unhandled-rejections=strict'],
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
  });
  running.add(child);
  let stderr = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const said = new Map<string, Record<string, unknown>>();
  const listeners = new Map<string, (message: Record<string, unknown>) => void>();
  child.on('message', (message: { say?: string }) => {
    if (message.say === undefined) return;
    said.set(message.say, message);
    listeners.get(message.say)?.(message);
  });
  serveStore(child, store, interfere);
  const exited = closed(child).then((ending) => {
    running.delete(child);
    return ending;
  });
  return {
    child,
    pid: child.pid ?? -1,
    exited,
    stderr: () => stderr,
    tell: (what) => void child.send({ kind: 'tell', what }),
    heard: async (what) =>
      said.get(what) ??
      (await Promise.race([
        new Promise<Record<string, unknown>>((resolve) => listeners.set(what, resolve)),
        exited.then(({ code, signal }) => {
          throw new Error(`the process ended (${code ?? signal}) before it said "${what}": ${stderr}`);
        }),
      ])),
  };
}
