import { onAbort } from '../../../util/abort.ts';
import { type Indexed, UnorderedSet } from '../../../util/unordered-set.ts';
import { gaveUp } from '../failure.ts';

interface Caller<T> extends Indexed {
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
  readonly #callers = new UnorderedSet<Caller<T>>();

  constructor(work: Promise<T>) {
    work.then(
      (value) => this.#settle((caller) => caller.resolve(value)),
      (error: unknown) => this.#settle((caller) => caller.reject(error)),
    );
  }

  /** Settles as the work does, or rejects with `gaveUp()` when the signal aborts first. */
  wait(signal?: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(gaveUp());
        return;
      }
      const caller: Caller<T> = { resolve, reject, stopListening: () => {} };
      this.#callers.add(caller);
      caller.stopListening = onAbort(signal, () => {
        this.#callers.delete(caller);
        reject(gaveUp());
      });
    });
  }

  #settle(settle: (caller: Caller<T>) => void): void {
    for (const caller of this.#callers.all.splice(0)) {
      caller.stopListening();
      settle(caller);
    }
  }
}
