import type { Clock } from '../../../clock.ts';
import type { ClaimRef } from '../../../store/store.ts';
import type { OwnWaiters } from './lock-queue.ts';

/** A caller that has not asked for this long has given up its claim without a release. */
const FORGET_MS = 90_000;

/**
 * The claims that wait in this store. A waiter in the table that is not among them is left over from a
 * release that has failed.
 */
export class LocalWaiters implements OwnWaiters {
  /** Identifies this store among all stores of the table. */
  readonly tag: string;
  readonly #clock: Clock;
  readonly #askedAtMs = new Map<string, Map<string, number>>();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.tag = Math.floor(clock.random() * 2 ** 47).toString(36);
  }

  get names(): Iterable<string> {
    return this.#askedAtMs.keys();
  }

  has(name: string): boolean {
    return this.#askedAtMs.has(name);
  }

  idsOf(name: string): string[] {
    return [...(this.#askedAtMs.get(name)?.keys() ?? [])];
  }

  /** The claim is asked for. */
  add({ name, id }: ClaimRef): void {
    const ids = this.#askedAtMs.get(name) ?? new Map<string, number>();
    this.#askedAtMs.set(name, ids);
    ids.set(id, this.#clock.monotonicMs());
  }

  /** The claim is granted or given up. */
  remove({ name, id }: ClaimRef): void {
    const ids = this.#askedAtMs.get(name);
    if (ids?.delete(id) === true && ids.size === 0) this.#askedAtMs.delete(name);
  }

  isWaiting(claim: ClaimRef): boolean {
    const askedAtMs = this.#askedAtMs.get(claim.name)?.get(claim.id);
    if (askedAtMs === undefined) return false;
    if (this.#clock.monotonicMs() - askedAtMs < FORGET_MS) return true;
    this.remove(claim);
    return false;
  }

  clear(): void {
    this.#askedAtMs.clear();
  }
}
