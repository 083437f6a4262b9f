/** Callbacks, by lock. */
export class CallbackIndex<Args extends readonly unknown[] = []> {
  readonly #byKey = new Map<string, Set<(...args: Args) => void>>();

  get isEmpty(): boolean {
    return this.#byKey.size === 0;
  }

  get keys(): readonly string[] {
    return [...this.#byKey.keys()];
  }

  /** Returns the function that removes the callback. It returns true when that was the key's last one. */
  add(key: string, callback: (...args: Args) => void): () => boolean {
    const callbacks = this.#byKey.get(key) ?? new Set();
    this.#byKey.set(key, callbacks);
    // A new function for each call, because the same callback may be given twice.
    const own = (...args: Args): void => callback(...args);
    callbacks.add(own);
    return () => {
      const isLast = callbacks.delete(own) && callbacks.size === 0 && this.#byKey.get(key) === callbacks;
      if (isLast) this.#byKey.delete(key);
      return isLast;
    };
  }

  call(key: string, ...args: Args): void {
    for (const callback of this.#byKey.get(key) ?? []) callback(...args);
  }

  has(key: string): boolean {
    return this.#byKey.has(key);
  }

  callAll(...args: Args): void {
    for (const key of this.keys) this.call(key, ...args);
  }

  clear(): void {
    this.#byKey.clear();
  }
}

/** What `watch` resolves to. */
export function disposable(stop: () => unknown): AsyncDisposable {
  return { [Symbol.asyncDispose]: async () => void (await stop()) };
}
