import type { Clock, Timer } from '../../clock.ts';
import type { Waiter } from '../../store/store.ts';

/** How long a pushed grant lasts without confirmation (`UNCONFIRMED_MS` of the Redis scripts). */
export const UNCONFIRMED_MS = 5_000;
/** Most holds end before this time, and then need no confirmation. */
const CONFIRM_AFTER_MS = 100;
/** A failed confirmation is tried again after this time, while the grant lasts. */
const CONFIRM_AGAIN_MS = 1_200;
const TRIES_MAX = 4;

/**
 * Pushed grants that their owners have not confirmed yet. A wake-up asks the owner to renew its
 * claim, and the renewal extends the grant to the TTL that was asked for.
 */
export class UnconfirmedGrants {
  readonly #clock: Clock;
  readonly #timers = new Map<string, Timer>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isEmpty(): boolean {
    return this.#timers.size === 0;
  }

  add(id: string, waiter: Waiter): void {
    this.#confirmAfter(CONFIRM_AFTER_MS, id, waiter, 1);
  }

  /** The grant was confirmed, or given up. */
  delete(id: string): void {
    this.#timers.get(id)?.cancel();
    this.#timers.delete(id);
  }

  clear(): void {
    for (const id of [...this.#timers.keys()]) this.delete(id);
  }

  #confirmAfter(ms: number, id: string, waiter: Waiter, tries: number): void {
    const timer = this.#clock.startTimer(ms, () => {
      if (tries === TRIES_MAX) this.#timers.delete(id);
      else this.#confirmAfter(CONFIRM_AGAIN_MS, id, waiter, tries + 1);
      waiter.wake();
    });
    this.#timers.set(id, timer);
  }
}
