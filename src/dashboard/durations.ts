import type { Core } from '../core.ts';
import { onAcquireTrace } from '../hold/acquire-trace.ts';
import type { Locks } from '../locks.ts';
import { storedName } from '../use.ts';
import type { DurationHistogram } from './api.ts';

const BOUNDS_MS = [
  1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000,
  3_600_000,
];
/** Locks beyond this are forgotten, those without a call for the longest time first. */
const LOCKS_MAX = 2_000;
/** Holds beyond this are not measured. */
const HOLDS_MAX = 100_000;

class Histogram {
  readonly #counts = new Array<number>(BOUNDS_MS.length + 1).fill(0);
  #count = 0;
  #sumMs = 0;

  record(ms: number): void {
    const index = BOUNDS_MS.findIndex((bound) => ms <= bound);
    const slot = index === -1 ? BOUNDS_MS.length : index;
    this.#counts[slot] = (this.#counts[slot] ?? 0) + 1;
    this.#count += 1;
    this.#sumMs += ms;
  }

  toJson(): DurationHistogram | null {
    if (this.#count === 0) return null;
    const [counts, count, sumMs] = [[...this.#counts], this.#count, Math.round(this.#sumMs * 1_000) / 1_000];
    return { boundsMs: BOUNDS_MS, counts, count, sumMs };
  }
}

interface LockDurations {
  readonly waits: Histogram;
  readonly holds: Histogram;
}

/** How long the calls of this process waited for each lock and held it. */
export class Durations {
  readonly #locks = new Map<string, LockDurations>();
  /** The lock of each hold of this process, by claim. */
  readonly #holds = new Map<string, string>();
  readonly #ends: readonly (() => void)[];

  constructor(core: Core, locks: Locks) {
    const onHoldEnd = ({ id, heldForMs }: { readonly id: string; readonly heldForMs: number }): void => {
      const key = this.#holds.get(id);
      if (key === undefined) return;
      this.#holds.delete(id);
      this.#of(key).holds.record(heldForMs);
    };
    this.#ends = [
      onAcquireTrace(core, {
        start: () => {},
        end: ({ name, use, id, fence, waitedMs }) => {
          if (fence === null) return;
          const key = storedName(use, name);
          this.#of(key).waits.record(waitedMs);
          // A permit of a rate limit is not held: it runs out by itself.
          if (use !== 'rateLimit' && this.#holds.size < HOLDS_MAX) this.#holds.set(id, key);
        },
      }),
      locks.on('released', onHoldEnd),
      locks.on('releaseFailed', onHoldEnd),
      locks.on('lost', onHoldEnd),
    ];
  }

  of(key: string): { waits: DurationHistogram | null; holds: DurationHistogram | null } {
    const known = this.#locks.get(key);
    return { waits: known?.waits.toJson() ?? null, holds: known?.holds.toJson() ?? null };
  }

  close(): void {
    for (const end of this.#ends) end();
  }

  #of(key: string): LockDurations {
    const found = this.#locks.get(key) ?? { waits: new Histogram(), holds: new Histogram() };
    this.#locks.delete(key);
    this.#locks.set(key, found);
    if (this.#locks.size > LOCKS_MAX) {
      for (const oldest of this.#locks.keys()) {
        this.#locks.delete(oldest);
        break;
      }
    }
    return found;
  }
}
