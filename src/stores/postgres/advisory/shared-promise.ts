import { onAbort } from '../../../util/abort.ts';
import { gaveUp } from '../failure.ts';

interface Caller<T> {
  resolve(value: T): void;
  reject(error: unknown): void;
  stopListening(): void;
}

/**
 * One piece of work that many callers wait for, such as opening a connection. A caller whose signal
 * aborts leaves at once. Callers do not await the promise itself: it would keep each of them in
 * memory until the work ends.
 */
export class SharedPromise<T> {
  readonly #work: Promise<T>;
  readonly #callers = new Set<Caller<T>>();
  #isSettled = false;

  constructor(work: Promise<T>) {
    this.#work = work;
    work.then(
      (value) => this.#settle((caller) => caller.resolve(value)),
      (error: unknown) => this.#settle((caller) => caller.reject(error)),
    );
  }

  /** Settles as the work does, or rejects with `gaveUp()` when the signal aborts first. */
  wait(signal?: AbortSignal): Promise<T> {
    if (this.#isSettled) return this.#work;
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(gaveUp());
        return;
      }
      const stopListening = onAbort(signal, () => {
        this.#callers.delete(caller);
        reject(gaveUp());
      });
      const caller = { resolve, reject, stopListening };
      this.#callers.add(caller);
    });
  }

  #settle(settle: (caller: Caller<T>) => void): void {
    this.#isSettled = true;
    for (const caller of this.#callers) {
      caller.stopListening();
      settle(caller);
    }
    this.#callers.clear();
  }
}
