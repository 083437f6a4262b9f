import { isElectionId } from '../claim-id.ts';
import type { Timer } from '../clock.ts';
import type { Core } from '../core.ts';
import { storedName } from '../use.ts';
import type { LockView } from '../view.ts';
import type { LockSummary } from './api.ts';
import { failureCode } from './failure-code.ts';
import type { Leases } from './leases.ts';
import { lockSummary } from './lock-summary.ts';
import { listsOnlyOwn, type ReadLock, scanStore } from './scan.ts';

/** Scans are at least so far apart, and take at most a tenth of the time. */
const INTERVAL_MIN_MS = 1_000;
const INTERVAL_MAX_MS = 60_000;
const PAUSE_SHARE = 10;

/** What one scan of the store found. */
export interface Scan {
  readonly takenAtMs: number;
  /** How long until the next scan begins, while there are viewers. */
  readonly intervalMs: number;
  readonly isTruncated: boolean;
  /** By stored name. A lock that has not changed has the same object as in the scan before. */
  readonly locks: ReadonlyMap<string, LockSummary>;
  /** By the names of the schedules. */
  readonly slots: ReadonlyMap<string, { readonly slotMs: number; readonly isDone: boolean }>;
  /** The names of the locks that have a candidate of an election among their claims. */
  readonly elections: ReadonlySet<string>;
}

/** What a scan finds, as it goes on. */
export interface ScanSamples {
  /** Gets every lock that is read. */
  onLock(lock: ReadLock): void;
  /** A scan has found every lock of the store. `locks`: by stored name. `startedAtMs`: by the wall clock. */
  onComplete(locks: ReadonlyMap<string, LockSummary>, startedAtMs: number): void;
}

export interface ScanListener {
  onScan(scan: Scan, before: Scan | null): void;
  onFailed(failure: { readonly atMs: number; readonly intervalMs: number; readonly code: string }): void;
}

/**
 * Scans the store for all viewers together: one scan at a time, only while there are listeners or a
 * request needs one, and the less often the longer a scan takes.
 */
export class ScanLoop {
  readonly #core: Core;
  readonly #samples: ScanSamples;
  readonly #leases: Leases;
  readonly #listeners = new Set<ScanListener>();
  #latest: Scan | null = null;
  #latestEndMs = 0;
  #running: Promise<Scan> | null = null;
  #timer: Timer | null = null;
  #failures = 0;
  #isClosed = false;

  constructor(core: Core, leases: Leases, samples: ScanSamples) {
    this.#core = core;
    this.#leases = leases;
    this.#samples = samples;
  }

  get latest(): Scan | null {
    return this.#latest;
  }

  get intervalMs(): number {
    return this.#latest?.intervalMs ?? INTERVAL_MIN_MS;
  }

  /** The latest scan, or a new one when that is older than the interval. Rejects when the store fails. */
  async recent(): Promise<Scan> {
    if (this.#latest !== null && !this.#isOld) return this.#latest;
    return await this.#scan();
  }

  /** Scans again and again until no listener is left. The result removes the listener. */
  listen(listener: ScanListener): () => void {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) {
      // The first viewer after a while waits for a scan, and is not shown how things were.
      if (this.#isOld) this.#latest = null;
      this.#startTimer(0);
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#timer?.cancel();
      this.#timer = null;
    };
  }

  close(): void {
    this.#isClosed = true;
    this.#listeners.clear();
    this.#timer?.cancel();
    this.#latest = null;
  }

  get #isOld(): boolean {
    const ageMs = this.#core.clock.monotonicMs() - this.#latestEndMs;
    return ageMs > this.intervalMs;
  }

  #startTimer(ms: number): void {
    this.#timer?.cancel();
    this.#timer = this.#core.clock.startTimer(ms, () => {
      // A failure was passed on to the listeners.
      void this.#scan().catch(() => {});
    });
  }

  #scan(): Promise<Scan> {
    this.#running ??= this.#scanAndTell().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async #scanAndTell(): Promise<Scan> {
    const { clock } = this.#core;
    const before = this.#latest;
    let waitMs = INTERVAL_MIN_MS;
    try {
      const scan = await this.#read(before);
      waitMs = scan.intervalMs;
      this.#failures = 0;
      if (this.#isClosed) return scan;
      this.#latest = scan;
      this.#latestEndMs = clock.monotonicMs();
      for (const listener of [...this.#listeners]) listener.onScan(scan, before);
      return scan;
    } catch (error) {
      waitMs = Math.min(INTERVAL_MIN_MS * 2 ** this.#failures, INTERVAL_MAX_MS / 2);
      this.#failures = Math.min(this.#failures + 1, 10);
      const failure = { atMs: clock.wallMs(), intervalMs: waitMs, code: failureCode(error) ?? 'STORE' };
      for (const listener of [...this.#listeners]) listener.onFailed(failure);
      throw error;
    } finally {
      if (this.#listeners.size > 0 && !this.#isClosed) this.#startTimer(waitMs);
    }
  }

  async #read(before: Scan | null): Promise<Scan> {
    const { clock } = this.#core;
    const [startedMs, startedAtMs] = [clock.monotonicMs(), clock.wallMs()];
    const locks = new Map<string, LockSummary>();
    const slots = new Map<string, { slotMs: number; isDone: boolean }>();
    const elections = new Set<string>();
    const isTruncated = await scanStore(this.#core, (lock) => {
      const { view, readAtMs, slot } = lock;
      const key = storedName(view.use, view.name);
      locks.set(key, lockSummary(view, readAtMs, this.#leases, before?.locks.get(key)));
      if (isElection(view)) elections.add(view.name);
      if (slot !== null) slots.set(view.name, slot);
      this.#samples.onLock(lock);
    });
    if (!isTruncated && !listsOnlyOwn(this.#core.store)) this.#samples.onComplete(locks, startedAtMs);
    const tookMs = clock.monotonicMs() - startedMs;
    const intervalMs = Math.round(Math.min(Math.max(tookMs * PAUSE_SHARE, INTERVAL_MIN_MS), INTERVAL_MAX_MS));
    return { takenAtMs: Math.round(clock.wallMs()), intervalMs, isTruncated, locks, slots, elections };
  }
}

/** A leader holds the lock; without one, or with a mutex of the same name, a candidate waits first. */
function isElection({ holders, waiters }: LockView): boolean {
  return [holders[0], waiters[0]].some((claim) => claim !== undefined && isElectionId(claim.id));
}
