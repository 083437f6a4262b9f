import type { Clock, Timer } from '../../../clock.ts';
import { CallbackIndex, disposable } from '../../shared/callback-index.ts';

/** A grant to another process sends no message, so observers are called this often. */
const LOOK_EVERY_MS = 1_000;

/** The observers of locks, by key. */
export class PolledObservers {
  readonly #clock: Clock;
  readonly #callbacks = new CallbackIndex();
  #timer: Timer | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(key: string, onChange: () => void): AsyncDisposable {
    this.#timer ??= this.#startTimer();
    return disposable(this.#callbacks.add(key, onChange));
  }

  notify(key: string): void {
    this.#callbacks.call(key);
  }

  notifyAll(): void {
    this.#callbacks.callAll();
  }

  clear(): void {
    this.#callbacks.clear();
    this.#timer?.cancel();
    this.#timer = null;
  }

  #startTimer(): Timer {
    return this.#clock.startTimer(LOOK_EVERY_MS, () => {
      this.#timer = this.#callbacks.isEmpty ? null : this.#startTimer();
      this.notifyAll();
    });
  }
}
