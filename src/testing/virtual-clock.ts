import { checkKeys } from '../checks.ts';
import type { Clock, Timer } from '../clock.ts';

/** Read at import, so that the fake timers of a test runner do not replace it. */
const nextTurn = setImmediate;

/** A clock that a test controls. */
export interface VirtualClock extends Clock {
  /**
   * Lets time pass: timers fire when they are due, in order, and their effects settle before the
   * next timer fires.
   */
  advance(ms: number): Promise<void>;
  /**
   * Blocks the event loop for this time: both clocks move, and timers that were due meanwhile fire
   * late, afterwards.
   */
  stall(ms: number): Promise<void>;
  /**
   * Sets the wall clock, forward or back. With a positive number this is also what a host that was
   * suspended looks like.
   */
  jumpWall(ms: number): void;
  /** Lets pending promises and immediates run, without any time passing. */
  settle(): Promise<void>;
  /** Resolves when that much virtual time has passed, for the code under test to await. */
  sleep(ms: number): Promise<void>;
  /** How many timers are set. */
  readonly timers: number;
}

/** Where a virtual clock starts. */
export interface VirtualClockOptions {
  /** The wall clock at the start. Default 2026-01-01T00:00:00Z. */
  readonly wallMs?: number | undefined;
  /** The same seed gives the same random numbers. Default 1. */
  readonly seed?: number | undefined;
}

/**
 * A clock that moves only on request, for tests of code that holds locks: pass it to the store and
 * to the Locks.
 */
export function virtualClock(options: VirtualClockOptions = {}): VirtualClock {
  checkKeys(options, ['wallMs', 'seed']);
  return new ManualClock(options.wallMs ?? Date.UTC(2026, 0, 1), options.seed ?? 1);
}

interface Pending {
  readonly dueAtMs: number;
  readonly order: number;
  readonly fire: () => void;
}

class ManualClock implements VirtualClock {
  #nowMs = 0;
  #wallOffsetMs: number;
  #state: number;
  #order = 0;
  readonly #pending = new Set<Pending>();

  constructor(wallMs: number, seed: number) {
    this.#wallOffsetMs = wallMs;
    this.#state = seed >>> 0;
  }

  get timers(): number {
    return this.#pending.size;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return this.#nowMs + this.#wallOffsetMs;
  }

  /** Mulberry32: small, fast and good enough for jitter. */
  random(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  startTimer(ms: number, fire: () => void): Timer {
    if (Number.isNaN(ms)) throw new RangeError('A timer needs a number of milliseconds');
    const pending: Pending = { dueAtMs: this.#nowMs + Math.max(ms, 0), order: this.#order++, fire };
    this.#pending.add(pending);
    return {
      cancel: () => {
        this.#pending.delete(pending);
      },
    };
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.startTimer(ms, resolve));
  }

  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    await this.settle();
    for (let next = this.#next(endMs); next !== null; next = this.#next(endMs)) {
      this.#nowMs = Math.max(this.#nowMs, next.dueAtMs);
      this.#pending.delete(next);
      next.fire();
      await this.settle();
    }
    this.#nowMs = Math.max(this.#nowMs, endMs);
    await this.settle();
  }

  async stall(ms: number): Promise<void> {
    this.#nowMs += ms;
    await this.advance(0);
  }

  jumpWall(ms: number): void {
    this.#wallOffsetMs += ms;
  }

  settle(): Promise<void> {
    return new Promise((resolve) => nextTurn(resolve));
  }

  #next(untilMs: number): Pending | null {
    let next: Pending | null = null;
    for (const pending of this.#pending) {
      if (pending.dueAtMs > untilMs) continue;
      if (
        next === null ||
        pending.dueAtMs < next.dueAtMs ||
        (pending.dueAtMs === next.dueAtMs && pending.order < next.order)
      ) {
        next = pending;
      }
    }
    return next;
  }
}
