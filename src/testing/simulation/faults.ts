import { SeededRandom, seedOf } from './seeded-random.ts';

/**
 * `delay`: a message takes up to a few TTLs. `loss`: a request, a reply or a wake-up is lost.
 * `pause`: a process is paused, also past its TTL, and then continues. `crash`: a process ends for
 * good. `clock`: the wall clock of a process jumps by an hour.
 */
export type SimulatedFault = 'delay' | 'loss' | 'pause' | 'crash' | 'clock';

export const SIMULATED_FAULTS: readonly SimulatedFault[] = ['delay', 'loss', 'pause', 'crash', 'clock'];

/** How likely each fault is for one message. */
const SHARE: Readonly<Record<SimulatedFault, number>> = {
  delay: 0.05,
  loss: 0.04,
  pause: 0.03,
  crash: 0.005,
  clock: 0.01,
};
const USUAL_MS = [1, 1, 1, 2, 3, 8];
const HOUR_MS = 3_600_000;

/** A fault that occurred, and the moment that names it: the n-th message of a process. */
export interface Occurrence {
  readonly key: string;
  readonly fault: SimulatedFault;
}

/** What happens to one message, and to its process when the message arrives. */
export interface Fate {
  readonly delayMs: number;
  /**
   * `told`: the sender learns at once that the connection is lost. `silent`: no reply ever comes.
   */
  readonly lost: 'told' | 'silent' | null;
  readonly pauseMs: number | null;
  readonly crashes: boolean;
  readonly wallJumpMs: number | null;
}

/**
 * Decides what happens to each message. Each decision has a seed of its own, so a fault that is
 * left out changes no other decision. That is how a failing history becomes short.
 */
export class Faults {
  readonly occurred: Occurrence[] = [];
  readonly #seed: number;
  readonly #ttlMs: number;
  readonly #allowed: ReadonlySet<SimulatedFault>;
  readonly #leftOut: ReadonlySet<string>;
  readonly #messages = new Map<string, number>();

  constructor(
    seed: number,
    ttlMs: number,
    allowed: readonly SimulatedFault[],
    leftOut: ReadonlySet<string> = new Set(),
  ) {
    this.#seed = seed;
    this.#ttlMs = ttlMs;
    this.#allowed = new Set(allowed);
    this.#leftOut = leftOut;
  }

  fateOf(process: string): Fate {
    const n = (this.#messages.get(process) ?? 0) + 1;
    this.#messages.set(process, n);
    const random = new SeededRandom(seedOf(this.#seed, `${process} ${n}`));
    const usualMs = random.pick(USUAL_MS);
    const lateMs = Math.ceil(random.roll() * this.#ttlMs * 3);
    const pauseMs = Math.ceil(random.roll() * this.#ttlMs * 3);
    const isTold = random.chance(0.5);
    const wallJumpMs = random.chance(0.5) ? HOUR_MS : -HOUR_MS;
    const has = (fault: SimulatedFault): boolean => {
      // Rolled in any case: what is allowed or left out does not change the rolls after it.
      const isDue = random.chance(SHARE[fault]);
      const key = `${process} ${n} ${fault}`;
      if (!isDue || !this.#allowed.has(fault) || this.#leftOut.has(key)) return false;
      this.occurred.push({ key, fault });
      return true;
    };
    return {
      delayMs: has('delay') ? lateMs : usualMs,
      lost: has('loss') ? (isTold ? 'told' : 'silent') : null,
      pauseMs: has('pause') ? pauseMs : null,
      crashes: has('crash'),
      wallJumpMs: has('clock') ? wallJumpMs : null,
    };
  }
}
