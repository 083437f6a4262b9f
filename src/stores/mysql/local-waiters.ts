import type { Clock } from '../../clock.ts';
import type { ClaimRef } from '../../store/store.ts';
import type { OwnWaiters } from './row-queue.ts';

/** A caller that has not asked for this long has given up its claim without a release. */
const FORGET_MS = 90_000;
/** Later than that: as long as a claim is polled for, `RowQueue.keep` also removes it from its row. */
const DROP_MS = 2 * FORGET_MS;

/**
 * The claims that wait in this store. A waiter in the table that is not among them is left over from a
 * release that has failed.
 */
export class LocalWaiters implements OwnWaiters {
  /** Identifies this store among all stores of the table. */
  readonly tag: string;
  readonly #clock: Clock;
  /** The claims of each lock, the one that was asked for longest ago first. */
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

  /** The claim is asked for. True when it was not among the waiters before. */
  add({ name, id }: ClaimRef): boolean {
    const ids = this.#askedAtMs.get(name) ?? new Map<string, number>();
    this.#askedAtMs.set(name, ids);
    const isNew = !ids.delete(id);
    ids.set(id, this.#clock.monotonicMs());
    return isNew;
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

  /** Drops claims that were given up without a release and are in no row, where none would find them. */
  dropOld(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [name, ids] of this.#askedAtMs) {
      for (const [id, askedAtMs] of ids) {
        if (nowMs - askedAtMs < DROP_MS) break;
        this.remove({ name, id });
      }
    }
  }

  clear(): void {
    this.#askedAtMs.clear();
  }
}
