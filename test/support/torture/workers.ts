import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Interval, Ledger } from './ledger.ts';

export interface WorkerPlan {
  readonly url: string;
  /** When it ends by itself; on the monotonic clock of the host. */
  readonly untilMs: number;
  readonly ttlMs: number;
  readonly locks: number;
  readonly tasks: number;
  readonly seed: number;
  readonly plant?: string | undefined;
}

/** Measurements of a worker; the first are taken when it has warmed up. */
interface Figures {
  firstHeap: number | null;
  heap: number;
  cpuMicros: number;
  samples: number;
}

/** One worker process and its output. */
export class TortureWorker {
  readonly id: number;
  readonly child: ChildProcess;
  readonly figures: Figures = { firstHeap: null, heap: 0, cpuMicros: 0, samples: 0 };
  readonly startedMs = hostMs();
  /** Its present holds, by its own keys. */
  readonly open = new Map<string, Interval>();
  exited: Promise<void> = Promise.resolve();
  isStopped = false;
  hasBegun = false;
  hasEnded = false;

  constructor(id: number, child: ChildProcess) {
    this.id = id;
    this.child = child;
  }

  get isRunning(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }
}

export const hostMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** Starts workers and collects their output. */
export class Workers {
  readonly #script: string;
  readonly #ledger: Ledger;
  readonly members: TortureWorker[] = [];
  readonly problems: string[] = [];
  readonly refusals = new Map<string, number>();
  holds = 0;
  #count = 0;
  readonly #killAll = (): void => {
    for (const member of this.running) member.child.kill('SIGKILL');
  };

  constructor(script: string, ledger: Ledger) {
    this.#script = script;
    this.#ledger = ledger;
    process.once('exit', this.#killAll);
  }

  get running(): TortureWorker[] {
    return this.members.filter((member) => member.isRunning);
  }

  start(plan: WorkerPlan): TortureWorker {
    const { url, untilMs, ttlMs, locks, tasks, seed, plant = '' } = plan;
    this.#count += 1;
    const id = this.#count;
    const args = [url, untilMs, ttlMs, locks, tasks, seed, plant].map(String);
    const child = spawn(
      process.execPath,
      ['--expose-gc', '--unhandled-rejections=strict', '--max-old-space-size=300', this.#script, ...args],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    const member = new TortureWorker(id, child);
    member.exited = this.#follow(member);
    this.members.push(member);
    return member;
  }

  async #follow(member: TortureWorker): Promise<void> {
    const { id, child, open } = member;
    let stderr = '';
    child.stderr?.on('data', (data: Buffer) => {
      stderr = (stderr + data.toString()).slice(-2_000);
    });
    const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
    if (child.stdout !== null)
      for await (const line of createInterface({ input: child.stdout })) this.#hear(member, line.split(' '));
    await closed;
    for (const interval of open.values()) this.#ledger.add(interval);
    open.clear();
    if (stderr !== '') this.problems.push(`stderr: worker ${id}: ${stderr.trim().replaceAll('\n', ' | ')}`);
    // A kill by the tests is expected; an exit of its own is a finding.
    const isKilled = child.signalCode === 'SIGKILL' || (child.signalCode === 'SIGTERM' && !member.hasBegun);
    if (isKilled) return;
    if (!member.hasEnded)
      this.problems.push(`silent exit: worker ${id} ended with ${child.exitCode ?? child.signalCode}`);
    else if (child.exitCode !== 0) this.problems.push(`exit: worker ${id}: ${child.exitCode}`);
  }

  #hear(member: TortureWorker, [word, ...rest]: string[]): void {
    const { id, open } = member;
    const [first = '', second = '', third = '', fourth = ''] = rest;
    if (word === 'b') member.hasBegun = true;
    else if (word === 'end') member.hasEnded = true;
    else if (word === 'h') {
      const fromMs = Number(fourth);
      this.holds += 1;
      open.set(first, { lock: second, worker: id, fence: BigInt(third), fromMs, toMs: fromMs });
    } else if (word === 't') {
      const interval = open.get(first);
      if (interval !== undefined) interval.toMs = Number(second);
    } else if (word === 'e') {
      const interval = open.get(first);
      if (interval !== undefined) this.#ledger.add(interval);
      open.delete(first);
    } else if (word === 'c') {
      this.refusals.set(first, (this.refusals.get(first) ?? 0) + 1);
    } else if (word === 's') {
      this.#note(id, Number(first), Number(second));
    } else if (word === 'p') {
      this.problems.push(`worker ${id}: ${rest.join(' ')}`);
    }
  }

  #note(id: number, heap: number, cpuMicros: number): void {
    const figures = this.members.find((member) => member.id === id)?.figures;
    if (figures === undefined) return;
    figures.samples += 1;
    // By the third sample everything is loaded.
    if (figures.samples === 3) figures.firstHeap = heap;
    figures.heap = heap;
    figures.cpuMicros = cpuMicros;
  }

  /** Asks all workers to end and waits for them. */
  async end(limitMs: number): Promise<void> {
    const hard = setTimeout(() => {
      for (const member of this.running) {
        this.problems.push(`hang: worker ${member.id} did not end`);
        member.child.kill('SIGKILL');
      }
    }, limitMs);
    for (const member of this.running) {
      member.child.kill('SIGCONT');
      member.child.kill('SIGTERM');
    }
    await Promise.all(this.members.map((member) => member.exited));
    clearTimeout(hard);
    process.off('exit', this.#killAll);
  }
}
