/** Callbacks of observers, by lock. */
export class CallbackIndex {
  readonly #byKey = new Map<string, Set<() => void>>();

  get isEmpty(): boolean {
    return this.#byKey.size === 0;
  }

  add(key: string, callback: () => void): AsyncDisposable {
    const callbacks = this.#byKey.get(key) ?? new Set();
    this.#byKey.set(key, callbacks);
    // A new function for each call, because the same callback may be given twice.
    const own = (): void => callback();
    callbacks.add(own);
    return {
      [Symbol.asyncDispose]: async () => {
        if (callbacks.delete(own) && callbacks.size === 0) this.#byKey.delete(key);
      },
    };
  }

  call(key: string): void {
    for (const callback of this.#byKey.get(key) ?? []) callback();
  }

  has(key: string): boolean {
    return this.#byKey.has(key);
  }

  callAll(): void {
    for (const key of [...this.#byKey.keys()]) this.call(key);
  }

  clear(): void {
    this.#byKey.clear();
  }
}
