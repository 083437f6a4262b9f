import type { Clock, Timer } from '../../clock.ts';

/** One timer at most for each key. */
export class KeyedTimers<Key extends string = string> {
  readonly #clock: Clock;
  readonly #timers = new Map<Key, Timer>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isEmpty(): boolean {
    return this.#timers.size === 0;
  }

  has(key: Key): boolean {
    return this.#timers.has(key);
  }

  set(key: Key, ms: number, callback: () => void): void {
    this.delete(key);
    const timer = this.#clock.startTimer(ms, () => {
      this.#timers.delete(key);
      callback();
    });
    this.#timers.set(key, timer);
  }

  delete(key: Key): void {
    this.#timers.get(key)?.cancel();
    this.#timers.delete(key);
  }

  clear(): void {
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
  }
}
