import type { Clock, Timer } from '../../../clock.ts';
import type { Watchers } from '../../memory/watchers.ts';

/** No grant elsewhere is told to those who only look, so they look again this often. */
const LOOK_EVERY_MS = 1_000;

/** Who watches a lock without standing in line. */
export class Observers {
  readonly #clock: Clock;
  readonly #watchers: Watchers;
  readonly #keys = new Map<string, number>();
  #timer: Timer | null = null;

  constructor(clock: Clock, watchers: Watchers) {
    this.#clock = clock;
    this.#watchers = watchers;
  }

  add(key: string, wake: () => void): AsyncDisposable {
    const watch = this.#watchers.add({ name: key }, wake);
    this.#keys.set(key, (this.#keys.get(key) ?? 0) + 1);
    this.#timer ??= this.#start();
    let isOver = false;
    return {
      [Symbol.asyncDispose]: async () => {
        if (!isOver) this.#leave(key);
        isOver = true;
        await watch[Symbol.asyncDispose]();
      },
    };
  }

  tellAll(): void {
    for (const key of [...this.#keys.keys()]) this.#watchers.tellName(key);
  }

  close(): void {
    this.#keys.clear();
    this.#timer?.cancel();
    this.#timer = null;
  }

  #leave(key: string): void {
    const left = (this.#keys.get(key) ?? 1) - 1;
    if (left > 0) this.#keys.set(key, left);
    else this.#keys.delete(key);
    if (this.#keys.size === 0) this.close();
  }

  #start(): Timer {
    return this.#clock.startTimer(LOOK_EVERY_MS, () => {
      this.#timer = this.#start();
      this.tellAll();
    });
  }
}
