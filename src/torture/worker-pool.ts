import { type ChildProcess, spawn } from 'node:child_process';
import { extname, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { FencedRegister, type RegisterRequest } from './fenced-register.ts';
import type { History, HistoryEvent, Note } from './history.ts';
import type { WorkerLine, WorkerPlan } from './worker-messages.ts';

const PIPES = ['ignore', 'ignore', 'pipe', 'pipe', 'ipc'] as const;

/** One worker process, as its parent sees it. */
export class Worker {
  readonly plan: WorkerPlan;
  readonly child: ChildProcess;
  /** Its present holds: the process number, and the last moment at which it surely held. */
  readonly holds = new Map<number, { readonly lock: string; at: number }>();
  exited: Promise<void> = Promise.resolve();
  isStopped = false;
  hasStarted = false;
  hasEnded = false;
  stderr = '';

  constructor(plan: WorkerPlan, child: ChildProcess) {
    this.plan = plan;
    this.child = child;
  }

  get isRunning(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }
}

/** Starts workers and collects the history. */
export class WorkerPool {
  readonly history: History = [];
  readonly workers: Worker[] = [];
  readonly #register = new FencedRegister();
  readonly #origin: bigint;
  /** Why the adapter could not be made, while no worker has had one. */
  startProblem: string | null = null;
  startFailures = 0;
  readonly #killAll = (): void => {
    for (const worker of this.running) worker.child.kill('SIGKILL');
  };

  constructor(origin: bigint) {
    this.#origin = origin;
    process.once('exit', this.#killAll);
  }

  get running(): Worker[] {
    return this.workers.filter((worker) => worker.isRunning);
  }

  get hasStarted(): boolean {
    return this.workers.some((worker) => worker.hasStarted);
  }

  now(): number {
    return Number(process.hrtime.bigint() - this.#origin);
  }

  note(note: Note, lock = ''): void {
    this.history.push({ at: this.now(), process: -1, type: 'info', op: 'lost', lock, note });
  }

  start(plan: WorkerPlan, env: NodeJS.ProcessEnv): Worker {
    const file = join(__dirname, `worker${extname(__filename)}`);
    // From the sources, which Node.js 20 cannot run by itself.
    const loader = file.endsWith('.ts') ? ['--import', 'tsx'] : [];
    const args = ['--expose-gc', '--max-old-space-size=300', ...loader, file, JSON.stringify(plan)];
    const child = spawn(process.execPath, args, { stdio: [...PIPES], env: { ...process.env, ...env } });
    const worker = new Worker(plan, child);
    worker.exited = this.#follow(worker);
    this.workers.push(worker);
    return worker;
  }

  async #follow(worker: Worker): Promise<void> {
    const { child } = worker;
    child.stderr?.on('data', (data: Buffer) => {
      worker.stderr = (worker.stderr + data.toString()).slice(-2_000);
    });
    child.on('message', (message) => {
      const reply = this.#register.apply(message as RegisterRequest);
      child.send(reply, () => {});
    });
    child.on('error', () => {});
    const lines = createInterface({ input: child.stdio[3] as Readable });
    lines.on('line', (line) => this.#read(worker, JSON.parse(line) as WorkerLine));
    const closed = new Promise<void>((resolve) => lines.once('close', resolve));
    await new Promise<void>((resolve) => child.once('exit', () => resolve()));
    await closed;
    this.#onExit(worker);
  }

  #read(worker: Worker, report: WorkerLine): void {
    if ('held' in report) {
      const hold = worker.holds.get(report.held.process);
      if (hold !== undefined) hold.at = report.held.at;
      return;
    }
    const { event } = report;
    this.history.push(event);
    if (event.note?.kind === 'adapter') worker.hasStarted = true;
    else if (event.note?.kind === 'end') worker.hasEnded = true;
    else if (event.note?.kind === 'problem' && event.note.what === 'start') {
      this.startProblem = event.note.text;
      this.startFailures += 1;
    } else this.#follows(worker, event);
  }

  #follows(worker: Worker, event: HistoryEvent): void {
    const { process, op, type, lock, at } = event;
    if (op === 'acquire' && type === 'ok') worker.holds.set(process, { lock, at });
    else if ((op === 'release' || op === 'lost') && type === 'invoke') worker.holds.delete(process);
  }

  /** Records that the holds of a process ended with it. */
  #onExit(worker: Worker): void {
    const { child, plan, holds } = worker;
    for (const [process, { lock, at }] of holds) {
      this.history.push({ at, process, type: 'invoke', op: 'lost', lock });
      this.history.push({ at: this.now(), process, type: 'info', op: 'lost', lock });
    }
    const how = child.signalCode ?? `exit code ${child.exitCode}`;
    const isKilled = child.signalCode === 'SIGKILL';
    const isExpected = isKilled || worker.hasEnded || !worker.hasStarted;
    const processes = plan.workloads.map((_, n) => plan.firstProcess + n);
    this.note({ kind: 'exit', worker: plan.worker, how, isExpected, processes });
  }

  /** Asks all workers to end, waits for them, and kills those that do not. */
  async end(limitMs: number): Promise<void> {
    const hard = setTimeout(this.#killAll, limitMs);
    for (const { child } of this.running) {
      child.kill('SIGCONT');
      child.send('end', () => {});
    }
    await Promise.all(this.workers.map((worker) => worker.exited));
    clearTimeout(hard);
    process.off('exit', this.#killAll);
  }
}
