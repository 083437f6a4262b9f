import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BackendKind } from '../../../src/torture/backends/backend.ts';
import { startBackend } from '../../../src/torture/backends/start-backend.ts';
import { randomFrom } from '../../../src/torture/random.ts';
import { countDeaths, type Harm, judge, type Run, type Span } from './runs.ts';

/** One of each kind of store that remembers. */
export const SCHEDULE_STORES = [
  'redis',
  'postgres',
  'sqlite',
  'etcd',
  'mysql',
  'redlock',
] as const satisfies BackendKind[];
export type ScheduleStore = (typeof SCHEDULE_STORES)[number];

export interface CampaignOptions {
  readonly kind: ScheduleStore;
  readonly forMs: number;
  readonly seed: number;
  /** The compiled worker. */
  readonly script: string;
  /** How long the store is away, in the middle; a file cannot be. */
  readonly outageMs: number;
  /** Half of the processes are so far ahead of the others, besides the 5 s. */
  readonly aheadMs?: number;
  /**
   * Whether every death must be made up for within the TTL and 2 s; else one within the TTL and 4 s,
   * since a busy machine makes some late. That counts from the kill of a process in the middle of a
   * run that was not finished, to the next run, while the store answers, other processes have the
   * schedule, and none was harmed for `QUIET_MS`.
   */
  readonly isStrict: boolean;
  /** `naive`: a lock instead of a schedule. */
  readonly plant?: string;
}

export interface CampaignResult {
  readonly verdict: 'holds' | 'violated' | 'not enough';
  readonly problems: readonly string[];
  readonly missing: readonly string[];
  readonly summary: string;
}

const SCHEDULES = ['skip', 'once'] as const;
const PROCESSES = 10;
const CLOCKS_APART_MS = 5_000;
const TTL_MS = 2_000;
const RECOVERY_MS = { strict: TTL_MS + 2_000, busy: TTL_MS + 4_000 };
/** A waiter that died delays its queue by up to 5 s: for a little longer, no process is harmed. */
const QUIET_MS = 5_500;
const CHAOS_MS = 5_000;
/** The store is back, clients have to connect again, and waiters may have died. */
const BACK_MS = 20_000;
const RUN_WAIT_MS = 5_000;
/** A run that is killed is more telling than a process that waits. */
const RUNNING_SHARE = 0.6;

/** How long a campaign may continue, on a busy machine, until it has done enough. */
const PATIENCE_MS = 30_000;
/**
 * The slots that have to be run of all that came: some pass while a run is longer than the
 * interval, or dead.
 */
const SLOTS_SHARE = 0.3;

const hostMs = (): number => Number(process.hrtime.bigint()) / 1e6;

interface Member {
  readonly id: number;
  readonly n: number;
  readonly child: ChildProcess;
  readonly runs: Map<string, Run>;
  readonly exited: Promise<void>;
  isStopped: boolean;
}

/**
 * Ten processes with clocks up to 5 s apart, a slot every second, kills and stops. Ends by itself.
 */
export async function scheduleCampaign(options: CampaignOptions): Promise<CampaignResult> {
  await using backend = await startBackend(options.kind);
  const route = await backend.route();
  const campaign = new Campaign(route.url, options);
  try {
    return await campaign.run({
      away: () => {
        for (const proxy of route.proxies) proxy.refuse();
        for (const proxy of route.proxies) proxy.cut();
      },
      back: () => {
        for (const proxy of route.proxies) proxy.pass();
      },
      canFail: route.proxies.length > 0,
    });
  } finally {
    campaign.killAll();
  }
}

interface Store {
  away(): void;
  back(): void;
  readonly canFail: boolean;
}

class Campaign {
  readonly #url: string;
  readonly #options: CampaignOptions;
  readonly #random: () => number;
  readonly #recoveryMs: number;
  readonly #members: Member[] = [];
  readonly #runs: Run[] = [];
  readonly #harms: Harm[] = [];
  readonly #outages: Span[] = [];
  readonly #problems: string[] = [];
  /**
   * From the kill of a process in a run, with no other fault about, to the next run with `once`.
   */
  readonly #recoveriesMs: number[] = [];

  constructor(url: string, options: CampaignOptions) {
    this.#url = url;
    this.#options = options;
    this.#random = randomFrom(options.seed);
    this.#recoveryMs = options.isStrict ? RECOVERY_MS.strict : RECOVERY_MS.busy;
  }

  async run(store: Store): Promise<CampaignResult> {
    const { forMs, isStrict } = this.#options;
    for (let n = 0; n < PROCESSES; n += 1) this.#start(n);
    while (this.#runs.length === 0) await sleep(50);
    const startedMs = hostMs();
    const untilMs = startedMs + forMs + PATIENCE_MS;
    for (let cycle = 0; ; cycle += 1) {
      await this.#harmFor(CHAOS_MS);
      if (cycle === 0 && store.canFail) await this.#fail(store);
      await sleep(QUIET_MS);
      await this.#killRunner();
      const isEnough = this.#missing(forMs).length === 0 && (isStrict || this.#isMadeUpFor());
      if (hostMs() > untilMs || (hostMs() > startedMs + forMs && isEnough)) break;
    }
    const endMs = hostMs();
    await this.#end();
    return this.#judge(startedMs, endMs);
  }

  killAll(): void {
    for (const { child } of this.#members) child.kill('SIGKILL');
  }

  get #alive(): Member[] {
    return this.#members.filter(({ child }) => child.exitCode === null && child.signalCode === null);
  }

  #start(n: number): void {
    const { script, plant = '', aheadMs = 0 } = this.#options;
    const shiftMs = Math.round((n * CLOCKS_APART_MS) / (PROCESSES - 1)) + (n % 2) * aheadMs;
    const args = [this.#url, shiftMs, TTL_MS, plant].map(String);
    const child = spawn(process.execPath, ['--unhandled-rejections=strict', script, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const id = this.#members.length + 1;
    const runs = new Map<string, Run>();
    const exited = this.#follow(id, child, runs);
    this.#members.push({ id, n, child, runs, exited, isStopped: false });
  }

  async #follow(id: number, child: ChildProcess, runs: Map<string, Run>): Promise<void> {
    let stderr = '';
    let hasBegun = false;
    let hasEnded = false;
    child.stderr?.on('data', (data: Buffer) => {
      stderr += data.toString();
    });
    const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
    if (child.stdout !== null) {
      for await (const line of createInterface({ input: child.stdout })) {
        if (line === 'b') hasBegun = true;
        else if (line === 'end') hasEnded = true;
        else if (line.startsWith('p ')) this.#problems.push(`process ${id}: ${line.slice(2)}`);
        else this.#hear(id, runs, line.split(' '));
      }
    }
    await closed;
    if (stderr !== '') this.#problems.push(`process ${id}: ${stderr.slice(0, 500)}`);
    const isOurs = child.signalCode === 'SIGKILL' || (child.signalCode === 'SIGTERM' && !hasBegun);
    if (!hasEnded && !isOurs)
      this.#problems.push(`process ${id} ended by itself: ${child.exitCode ?? child.signalCode}`);
  }

  #hear(worker: number, runs: Map<string, Run>, [word, key = '', ...rest]: string[]): void {
    if (word === 's') {
      const [schedule, slotMs, fence = '0', startedMs] = rest;
      const run: Run = {
        schedule: schedule === 'skip' ? 'skip' : 'once',
        slotMs: Number(slotMs),
        fence: BigInt(fence),
        worker,
        startedMs: Number(startedMs),
        heldMs: Number(startedMs),
        returnedMs: null,
        lostMs: null,
        releasedMs: null,
      };
      runs.set(key, run);
      this.#runs.push(run);
      return;
    }
    const run = runs.get(key);
    const atMs = Number(rest[0]);
    if (run === undefined) return;
    if (word === 't' || word === 'e') run.heldMs = atMs;
    if (word === 'e') run.returnedMs = atMs;
    if (word === 'l') run.lostMs = atMs;
    if (word === 'r') run.releasedMs = atMs;
  }

  /**
   * Kills processes, or stops them for up to two TTLs. Others take the place of those that were
   * killed.
   */
  async #harmFor(ms: number): Promise<void> {
    for (const endMs = hostMs() + ms; hostMs() < endMs; ) {
      await sleep(300 + this.#random() * 900);
      const able = this.#alive.filter(({ isStopped }) => !isStopped);
      const running = able.filter(isRunning);
      const among = running.length > 0 && this.#random() < RUNNING_SHARE ? running : able;
      const member = among[Math.floor(this.#random() * among.length)];
      if (member === undefined || able.length < PROCESSES / 2) continue;
      if (this.#random() < 0.5) this.#kill(member);
      else this.#stop(member, 200 + this.#random() * (2 * TTL_MS));
    }
    for (const member of this.#alive.filter(({ isStopped }) => isStopped)) this.#continue(member);
  }

  #kill(member: Member): void {
    const fromMs = hostMs();
    member.child.kill('SIGKILL');
    this.#harms.push({ kind: 'kill', worker: member.id, fromMs, toMs: Number.POSITIVE_INFINITY });
    this.#start(member.n);
  }

  #stop(member: Member, forMs: number): void {
    const fromMs = hostMs();
    member.isStopped = true;
    member.child.kill('SIGSTOP');
    this.#harms.push({ kind: 'stop', worker: member.id, fromMs, toMs: fromMs + forMs });
    setTimeout(() => this.#continue(member), forMs).unref();
  }

  #continue(member: Member): void {
    member.isStopped = false;
    member.child.kill('SIGCONT');
  }

  /**
   * With no other fault about, kills a process in the middle of a run and waits for the run that
   * follows.
   */
  async #killRunner(): Promise<void> {
    let member = this.#alive.find(isRunning);
    for (const endMs = hostMs() + RUN_WAIT_MS; member === undefined && hostMs() < endMs; ) {
      await sleep(20);
      member = this.#alive.find(isRunning);
    }
    if (member === undefined) return;
    const fromMs = hostMs();
    this.#kill(member);
    // What it wrote before its end has been read by then.
    await member.exited;
    if (!isRunning(member)) return;
    while (hostMs() < fromMs + 2 * this.#recoveryMs && !this.#hasRunSince('once', fromMs)) await sleep(20);
    const next = this.#runs.find((run) => run.schedule === 'once' && run.startedMs > fromMs);
    this.#recoveriesMs.push((next?.startedMs ?? Number.POSITIVE_INFINITY) - fromMs);
  }

  #hasRunSince(schedule: Run['schedule'], ms: number): boolean {
    return this.#runs.some((run) => run.schedule === schedule && run.startedMs > ms);
  }

  #isMadeUpFor(): boolean {
    return this.#recoveriesMs.some((ms) => ms <= this.#recoveryMs);
  }

  async #fail(store: Store): Promise<void> {
    const fromMs = hostMs();
    store.away();
    await sleep(this.#options.outageMs);
    store.back();
    const backMs = hostMs();
    // Holds that were not renewed meanwhile end up to a TTL later.
    this.#outages.push({ fromMs: fromMs - TTL_MS, toMs: backMs + TTL_MS });
    for (const schedule of SCHEDULES) {
      while (hostMs() < backMs + BACK_MS && !this.#hasRunSince(schedule, backMs)) await sleep(20);
      if (!this.#hasRunSince(schedule, backMs))
        this.#problems.push(`${schedule}: no run in ${BACK_MS} ms after the outage`);
    }
  }

  async #end(): Promise<void> {
    const hard = setTimeout(() => {
      for (const { id, child } of this.#alive) {
        this.#problems.push(`process ${id} did not end`);
        child.kill('SIGKILL');
      }
    }, 30_000);
    for (const { child } of this.#alive) {
      child.kill('SIGCONT');
      child.kill('SIGTERM');
    }
    await Promise.all(this.#members.map(({ exited }) => exited));
    clearTimeout(hard);
  }

  #missing(forMs: number): string[] {
    const awayMs = this.#outages.length > 0 ? this.#options.outageMs : 0;
    const wanted = Math.floor(((forMs - awayMs) / 1_000) * SLOTS_SHARE);
    const missing = SCHEDULES.flatMap((schedule) => {
      const { slots } = this.#count(schedule);
      return slots < wanted ? [`${schedule}: ${slots} slots, ${wanted} wanted`] : [];
    });
    return this.#recoveriesMs.length > 0 ? missing : [...missing, 'no run was killed'];
  }

  #count(schedule: Run['schedule']): { runs: number; slots: number } {
    const runs = this.#runs.filter((run) => run.schedule === schedule);
    return { runs: runs.length, slots: new Set(runs.map(({ slotMs }) => slotMs)).size };
  }

  #judge(startedMs: number, endMs: number): CampaignResult {
    const problems = [...this.#problems, ...judge(this.#runs, this.#harms, this.#outages)];
    const longestMs = Math.max(...this.#recoveriesMs);
    const isSoon = this.#options.isStrict ? longestMs <= this.#recoveryMs : this.#isMadeUpFor();
    const tookMs = this.#recoveriesMs.join(', ');
    if (this.#recoveriesMs.length > 0 && !isSoon)
      problems.push(`once: no run within ${this.#recoveryMs} ms of a death, but after ${tookMs} ms`);
    const missing = this.#missing(this.#options.forMs);
    const verdict = problems.length > 0 ? 'violated' : missing.length > 0 ? 'not enough' : 'holds';
    const kills = this.#harms.filter(({ kind }) => kind === 'kill').length;
    const counts = SCHEDULES.map((schedule) => {
      const { runs, slots } = this.#count(schedule);
      return `${runs} runs of ${slots} slots with ${schedule}`;
    });
    const summary =
      `${((endMs - startedMs) / 1_000).toFixed()} s, ${counts.join(', ')}, ${kills} kills, ` +
      `${this.#harms.length - kills} stops, ${countDeaths(this.#runs, this.#harms)} runs died; ` +
      `next run after ${this.#recoveriesMs.map((ms) => ms.toFixed()).join(', ')} ms`;
    return { verdict, problems, missing, summary };
  }
}

const isRunning = ({ runs }: Member): boolean =>
  [...runs.values()].some((run) => run.schedule === 'once' && run.returnedMs === null && run.lostMs === null);
