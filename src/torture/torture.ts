import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { checkCount, checkKeys, wrong } from '../checks.ts';
import { InvalidArgumentError } from '../errors.ts';
import { checkHistory } from './checks/check-history.ts';
import { quietMsFor } from './checks/progress.ts';
import type { Verdict } from './checks/verdict.ts';
import { Faults, type Slot } from './faults.ts';
import type { History } from './history.ts';
import { randomFrom } from './random.ts';
import { makeClockShim } from './servers/clock-shim.ts';
import { chosenFaults, openTestBed, type TestBed } from './test-bed.ts';
import { LOCK_OF, LOCKS, type Workload } from './worker-messages.ts';
import { WorkerPool } from './worker-pool.ts';

/** How to torture. */
export interface TortureOptions {
  /**
   * A URL, to inject faults of connections and processes, or `redis`, `redis+sentinel`,
   * `redis+cluster`, `redlock`, `postgres`, `etcd`, `zookeeper`, `sqlite` or `mysql`: a server that
   * is started for the run.
   */
  server: string;
  /** 1 unless set. */
  minutes?: number;
  /** Random unless set. The same seed gives the same order of faults and of work. */
  seed?: number;
  /** How many worker processes; 4 unless set. */
  workers?: number;
  /** All that a server survives without losing what it has confirmed, unless set. */
  faults?: readonly string[];
  /** The TTL that adapters are asked for: 2 s, and 3 s on etcd and ZooKeeper, unless set. */
  ttlMs?: number;
}

/** What came of a run. */
export interface Report {
  history: History;
  verdicts: Verdict[];
  /** How many operations of the workers have ended, with any result. */
  operations: number;
  /** How often each fault was injected. */
  faults: Record<string, number>;
}

const SETTLE_MS = 1_000;
/** How long a burst of faults lasts, in TTLs. */
const BURST_TTLS = 6;
const START_MS = 60_000;
const END_MS = 15_000;
const START_ATTEMPTS = 3;

/**
 * Tortures a lock library through its adapter, and judges what happened. Ends by itself, a few
 * seconds after `minutes` have passed. Rejects when the adapter or the server cannot be started.
 */
export async function torture(adapterModule: string, options: TortureOptions): Promise<Report> {
  checkKeys(options, ['server', 'minutes', 'seed', 'workers', 'faults', 'ttlMs'], 'options');
  const { minutes = 1, workers = 4, seed = Date.now() % 1_000_000 } = options;
  if (!(minutes > 0 && minutes <= 24 * 60)) throw wrong('minutes', 'more than 0 and at most 1440', minutes);
  checkCount('workers', workers, 2, 64);
  checkCount('seed', seed, 0, 2 ** 32 - 1);
  const file = resolve(adapterModule);
  if (!existsSync(file)) throw new InvalidArgumentError('adapterModule', `there is no file ${file}`);
  const testBed = await openTestBed(options.server, options.faults);
  try {
    const settings = { ...options, minutes, workers, seed, ttlMs: options.ttlMs ?? testBed.ttlMs };
    return await new Run(testBed, pathToFileURL(file).href, settings).run();
  } finally {
    await testBed.stop();
  }
}

type Settings = TortureOptions & { minutes: number; workers: number; seed: number; ttlMs: number };

class Run {
  readonly #testBed: TestBed;
  readonly #module: string;
  readonly #settings: Settings;
  readonly #origin = process.hrtime.bigint();
  readonly #pool = new WorkerPool(this.#origin);
  readonly #random: () => number;
  readonly #kinds: readonly string[];
  readonly #folder = mkdtempSync(join(tmpdir(), 'holdfast-torture-'));
  readonly #slots: Slot[] = [];
  #processes = 0;
  #isEnding = false;

  constructor(testBed: TestBed, module: string, settings: Settings) {
    this.#testBed = testBed;
    this.#module = module;
    this.#settings = settings;
    this.#random = randomFrom(settings.seed);
    this.#kinds = chosenFaults(testBed, settings.faults);
  }

  async run(): Promise<Report> {
    const refilling = setInterval(() => this.#refill(), 100);
    try {
      await this.#begin();
      const faults = await this.#torture();
      this.#isEnding = true;
      await this.#pool.end(END_MS);
      await this.#probe();
      return this.#report(faults);
    } finally {
      clearInterval(refilling);
      this.#isEnding = true;
      await this.#pool.end(0);
      for (const { clock } of this.#slots) clock?.remove();
      rmSync(this.#folder, { recursive: true, force: true });
    }
  }

  async #begin(): Promise<void> {
    const { server, seed, ttlMs, minutes, workers } = this.#settings;
    const seconds = minutes * 60;
    this.#pool.note({ kind: 'run', server, seed, ttlMs, seconds, workers, faults: this.#kinds });
    for (let n = 0; n < workers; n += 1) {
      const route = await this.#testBed.route();
      const clock = this.#kinds.includes('clock') ? makeClockShim() : null;
      this.#slots.push({ worker: this.#startWorker(n, route.url, clock?.env ?? {}), route, clock });
    }
    for (const untilMs = performance.now() + START_MS; ; await sleep(20)) {
      if (this.#slots.every(({ worker }) => worker.hasStarted)) return;
      const { startProblem, startFailures } = this.#pool;
      if (startFailures >= START_ATTEMPTS || performance.now() > untilMs)
        throw new Error(`the adapter does not start: ${startProblem ?? 'no worker has answered'}`);
    }
  }

  #startWorker(n: number, url: string, env: NodeJS.ProcessEnv, probe?: readonly string[]): Slot['worker'] {
    const { workers, ttlMs } = this.#settings;
    const all: readonly Workload[] = ['lock', 'register', 'fenced', 'shared', 'permits'];
    // The last worker has one task: it shows whether a pending call keeps a process alive.
    const some: readonly Workload[] = n === workers - 1 ? ['lock'] : n === 0 ? ['seldom', ...all] : all;
    const firstProcess = this.#processes;
    this.#processes += some.length;
    const plan = {
      module: this.#module,
      url,
      ttlMs,
      seed: Math.floor(this.#random() * 2 ** 32),
      origin: String(this.#origin),
      worker: n,
      firstProcess,
      workloads: some,
      registers: this.#folder,
    };
    return this.#pool.start(probe === undefined ? plan : { ...plan, probe }, env);
  }

  /** Replaces workers that have died. */
  #refill(): void {
    if (this.#isEnding) return;
    for (const [n, slot] of this.#slots.entries())
      if (!slot.worker.isRunning) slot.worker = this.#startWorker(n, slot.route.url, slot.clock?.env ?? {});
  }

  /**
   * Alternates bursts of faults with quiet periods, in which every lock has to make progress; ends
   * with one.
   */
  async #torture(): Promise<Faults> {
    const { minutes, ttlMs } = this.#settings;
    const faults = new Faults({
      ...this.#testBed,
      pool: this.#pool,
      slots: this.#slots,
      ttlMs,
      kinds: this.#kinds,
      random: this.#random,
    });
    const quietMs = quietMsFor(ttlMs);
    for (const endMs = performance.now() + minutes * 60_000; ; ) {
      const leftMs = endMs - performance.now() - SETTLE_MS - quietMs;
      await faults.burst(Math.max(1_000, Math.min(ttlMs * BURST_TTLS, leftMs)));
      await faults.loseReplies();
      await sleep(SETTLE_MS);
      await faults.killHolder();
      await this.#stayQuiet(quietMs);
      if (performance.now() >= endMs) return faults;
    }
  }

  async #stayQuiet(forMs: number): Promise<void> {
    this.#pool.note({ kind: 'quiet', isOn: true });
    let lagMs = 0;
    for (const endMs = performance.now() + forMs; performance.now() < endMs; ) {
      const beforeMs = performance.now();
      await sleep(50);
      lagMs = Math.max(lagMs, performance.now() - beforeMs - 50);
    }
    this.#pool.note({ kind: 'quiet', isOn: false, lagMs: Math.round(lagMs) });
  }

  async #probe(): Promise<void> {
    const route = this.#slots[0]?.route ?? (await this.#testBed.route());
    const locks = [...LOCKS, LOCK_OF.register, LOCK_OF.fenced, LOCK_OF.seldom];
    await this.#startWorker(0, route.url, {}, locks).exited;
    const count = await this.#testBed.keys();
    if (count !== null) this.#pool.note({ kind: 'keys', count });
  }

  #report(faults: Faults): Report {
    const { history } = this.#pool;
    history.sort((a, b) => a.at - b.at);
    const operations = history.filter(({ process, type }) => process >= 0 && type !== 'invoke').length;
    return { history, verdicts: checkHistory(history), operations, faults: faults.counts };
  }
}
