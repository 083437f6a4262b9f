import { setTimeout as sleep } from 'node:timers/promises';
import { type Locks, type LockView, openLocks } from '../../../src/index.ts';
import type { Backend, BackendKind } from '../../../src/torture/backends/backend.ts';
import { startBackend } from '../../../src/torture/backends/start-backend.ts';
import { randomFrom } from '../../../src/torture/random.ts';
import { type FaultKind, Faults, faultKindsOf } from './faults.ts';
import { Ledger } from './ledger.ts';
import { ttlMsOf, urlWithTtl } from './ttl.ts';
import { hostMs, Workers } from './workers.ts';

export interface TortureOptions {
  readonly kind: BackendKind;
  readonly forMs: number;
  readonly seed: number;
  /** The compiled worker. */
  readonly script: string;
  /** A planted defect: `no-deadline`, `silent-exit`, `idle`. */
  readonly plant?: string | undefined;
  /** How much longer it may run on a busy machine until it has done enough; a minute unless set. */
  readonly patienceMs?: number | undefined;
  /** A run with fewer holds does not count; one a second unless set. */
  readonly holds?: number | undefined;
  /** Every kind that the store can have unless set. */
  readonly faults?: readonly FaultKind[];
  /** How many locks the workers share, and how many tasks each of them has; 3 unless set. */
  readonly locks?: number | undefined;
  readonly tasks?: number | undefined;
  /** The servers of a store in a cluster: 3 unless set. */
  readonly nodes?: number;
  readonly log?: (text: string) => void;
  /** Every minute: a line of figures, and the problems that were found since the last one. */
  readonly report?: (line: string) => void;
}

export interface TortureResult {
  readonly verdict: 'holds' | 'violated' | 'not enough';
  readonly problems: readonly string[];
  /** Why it was not enough; empty when it was. */
  readonly missing: readonly string[];
  readonly summary: string;
}

const WORKERS = 4;
const TASKS = 3;
const LOCKS = 3;
const MINUTE_MS = 60_000;
/** No interval is reported later than this after it began. */
const LATE_MS = 60_000;
/**
 * A reset frees the lock of a session at once. On a busy machine its process runs a moment later
 * (`docs/safety.md`). Anything longer is a defect.
 */
const SESSION_NOTICE_MS = 1_000;
const HEAP_MAX = 20 * 1024 * 1024;
/** Per second of the run, on average. A run with fewer does not count. */
const HOLDS_PER_SECOND = 1;
/**
 * Every claim of a killed worker is gone by then: its TTL, a queue position, a minute for the rest.
 */
const ORPHAN_MS = 75_000;

/** Tortures one store for a time and returns the result. It ends by itself. */
export async function torture(options: TortureOptions): Promise<TortureResult> {
  await using backend = await startBackend(options.kind, { nodes: options.nodes ?? 3, isDurable: true });
  return await new Torture(backend, options).run();
}

class Torture {
  readonly #backend: Backend;
  readonly #options: TortureOptions;
  readonly #ledger: Ledger;
  readonly #workers: Workers;
  readonly #random: () => number;
  readonly #ttlMs: number;
  readonly #lockCount: number;
  readonly #kinds: readonly FaultKind[];
  readonly #startedMs = hostMs();
  #reportedProblems = 0;

  constructor(backend: Backend, options: TortureOptions) {
    this.#backend = backend;
    this.#options = options;
    this.#ledger = new Ledger(options.kind === 'advisory' ? SESSION_NOTICE_MS : 0);
    this.#workers = new Workers(options.script, this.#ledger);
    this.#random = randomFrom(options.seed);
    this.#ttlMs = ttlMsOf(options.kind);
    this.#lockCount = options.locks ?? LOCKS;
    this.#kinds = options.faults ?? faultKindsOf(backend);
  }

  async run(): Promise<TortureResult> {
    const { forMs, log = () => {} } = this.#options;
    const endMs = this.#startedMs + forMs;
    const untilMs = endMs + (this.#options.patienceMs ?? MINUTE_MS);
    await this.#prepare();
    const routes = await Promise.all(Array.from({ length: WORKERS }, () => this.#backend.route()));
    const urls = routes.map(({ url }) => urlWithTtl(this.#options.kind, url, this.#ttlMs));
    const hire = (n: number) =>
      this.#workers.start({
        url: urls[n] ?? '',
        untilMs,
        ttlMs: this.#ttlMs,
        locks: this.#lockCount,
        // The last worker has one task: it shows whether a pending call keeps a process alive.
        tasks: n === WORKERS - 1 ? 1 : (this.#options.tasks ?? TASKS),
        seed: Math.floor(this.#random() * 2 ** 32),
        plant: this.#options.plant,
      });
    const posts = urls.map((_, n) => hire(n));
    const faults = new Faults({
      backend: this.#backend,
      routes,
      workers: this.#workers,
      ttlMs: this.#ttlMs,
      kinds: this.#kinds,
      random: this.#random,
      log,
    });
    const faulting = faults.run().catch((error: unknown) => {
      this.#workers.problems.push(`faults: ${String(error)}`);
    });
    let nextReportMs = hostMs() + MINUTE_MS;
    while (hostMs() < endMs || (this.#missing(faults).length > 0 && hostMs() < untilMs)) {
      await sleep(250);
      for (const [n, post] of posts.entries()) if (!post.isRunning) posts[n] = hire(n);
      if (hostMs() < nextReportMs) continue;
      nextReportMs += MINUTE_MS;
      this.#ledger.judge(hostMs() - LATE_MS);
      this.#report(faults);
    }
    faults.end();
    await faulting;
    await this.#workers.end(60_000);
    this.#ledger.judge();
    const orphans = await this.#orphans();
    return this.#judge(faults, orphans);
  }

  async #prepare(): Promise<void> {
    const locks = await openLocks(this.#backend.url, { waitMs: 30_000 });
    await locks.withLock('prepared', () => 1);
    await locks.close();
  }

  get #names(): string[] {
    return Array.from({ length: this.#lockCount }, (_, n) => `torture-${n}`);
  }

  /** Claims that are left when all workers are gone. */
  async #orphans(): Promise<string[]> {
    const locks = await openLocks(urlWithTtl(this.#options.kind, this.#backend.url, this.#ttlMs), {
      waitMs: ORPHAN_MS,
      ttlMs: this.#ttlMs,
    });
    try {
      for (const name of this.#names) await locks.withLock(name, () => 1);
      for (const giveUpMs = hostMs() + ORPHAN_MS; ; await sleep(250)) {
        const left = await claimsOf(locks, this.#names);
        if (left.length === 0 || hostMs() > giveUpMs) return left.map((claim) => `orphan: ${claim}`);
      }
    } catch (error) {
      return [`recovery: ${String(error)}`];
    } finally {
      await locks.close({ drainMs: 0 });
    }
  }

  #heapGrowth(): number {
    const growths = this.#workers.members.map(({ figures: { firstHeap, heap } }) =>
      firstHeap === null ? 0 : heap - firstHeap,
    );
    return Math.max(0, ...growths);
  }

  #cpuShare(): number {
    const [first] = this.#workers.members;
    if (first === undefined) return 0;
    return first.figures.cpuMicros / 1_000 / Math.max(1, hostMs() - first.startedMs);
  }

  get #problems(): readonly string[] {
    return [...this.#ledger.problems, ...this.#workers.problems];
  }

  /** A problem is reported when it is found: a run that is interrupted has no verdict. */
  #report(faults: Faults): void {
    const { report, kind } = this.#options;
    report?.(this.#line(faults));
    const found = this.#problems;
    if (found.length > this.#reportedProblems) for (const text of found) report?.(`${kind} problem: ${text}`);
    this.#reportedProblems = found.length;
  }

  #line(faults: Faults): string {
    const seconds = Math.round((hostMs() - this.#startedMs) / 1_000);
    const kinds = Object.entries(faults.counts).map(([kind, count]) => `${kind} ${count}`);
    const refusals = [...this.#workers.refusals].map(([code, count]) => `${code} ${count}`);
    return [
      `${this.#options.kind} ${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`,
      `${this.#workers.holds} holds`,
      `${this.#workers.members.length} workers`,
      `faults ${faults.total} (${kinds.join(', ')})`,
      `refused (${refusals.join(', ')})`,
      `heap +${(this.#heapGrowth() / 2 ** 20).toFixed(1)} MB`,
      `cpu ${(this.#cpuShare() * 100).toFixed(0)} %`,
      ...(this.#ledger.lateNotices > 0 ? [`late notices ${this.#ledger.lateNotices}`] : []),
      `problems ${this.#problems.length}`,
    ].join(' · ');
  }

  #judge(faults: Faults, orphans: readonly string[]): TortureResult {
    const growth = this.#heapGrowth();
    const problems = [
      ...this.#problems,
      ...orphans,
      ...(growth > HEAP_MAX ? [`heap: grew by ${(growth / 2 ** 20).toFixed(1)} MB`] : []),
    ];
    const missing = this.#missing(faults);
    return {
      verdict: problems.length > 0 ? 'violated' : missing.length > 0 ? 'not enough' : 'holds',
      problems,
      missing,
      summary: this.#line(faults),
    };
  }

  #missing(faults: Faults): string[] {
    const wanted = this.#options.holds ?? Math.ceil((this.#options.forMs / 1_000) * HOLDS_PER_SECOND);
    const unmade = this.#kinds.filter((kind) => faults.counts[kind] === undefined);
    return [
      ...(this.#workers.holds < wanted ? [`${this.#workers.holds} holds, ${wanted} wanted`] : []),
      ...unmade.map((kind) => `no ${kind}`),
    ];
  }
}

async function claimsOf(locks: Locks, names: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  const note = ({ name, holders, waiters }: LockView): void => {
    for (const claim of [...holders, ...waiters]) found.push(`${name} ${claim.id} of ${claim.owner}`);
  };
  for (const name of names) note(await locks.inspect(name));
  try {
    for await (const view of locks.list()) note(view);
  } catch (error) {
    // Advisory locks have no names, so they cannot be listed.
    if ((error as { code?: string }).code !== 'UNSUPPORTED') throw error;
  }
  return found;
}
