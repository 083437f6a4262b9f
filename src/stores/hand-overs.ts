import type { Clock, Timer } from '../clock.ts';

/** A little more than a claim that was granted unasked lives until its owner confirms it (`HANDED_MS` of `scripts/line.lua`). */
const UNCONFIRMED_MS = 5_100;

/**
 * Looks again at locks that we have handed over. The server cannot always tell that a waiter is dead: a stopped process, or a host that has lost its power,
 * still seems to listen. Whoever gave the lock up then passes it on; otherwise those behind would wait for a lease that they last heard of.
 */
export class HandOvers {
  readonly #clock: Clock;
  readonly #passOn: (name: string) => Promise<unknown>;
  readonly #timers = new Map<string, Timer>();

  /** `passOn` lets in whoever fits, when nobody holds the lock. */
  constructor(clock: Clock, passOn: (name: string) => Promise<unknown>) {
    this.#clock = clock;
    this.#passOn = passOn;
  }

  get isEmpty(): boolean {
    return this.#timers.size === 0;
  }

  watch(name: string): void {
    // One look after a burst of hand-overs is enough: it is the last of them that counts.
    this.#timers.get(name)?.cancel();
    const timer = this.#clock.startTimer(UNCONFIRMED_MS, () => {
      this.#timers.delete(name);
      this.#passOn(name).catch(() => {});
    });
    this.#timers.set(name, timer);
  }

  clear(): void {
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
  }
}
