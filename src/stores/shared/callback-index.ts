/** Callbacks. One that is added twice is called twice. */
export class Callbacks<Args extends readonly unknown[] = []> {
  readonly #all = new Set<{ readonly callback: (...args: Args) => void }>();

  get isEmpty(): boolean {
    return this.#all.size === 0;
  }

  /** Returns the function that removes the callback. It returns false when that was done before. */
  readonly add = (callback: (...args: Args) => void): (() => boolean) => {
    const own = { callback };
    this.#all.add(own);
    return () => this.#all.delete(own);
  };

  call(...args: Args): void {
    for (const { callback } of [...this.#all]) callback(...args);
  }

  clear(): void {
    this.#all.clear();
  }
}

/** Callbacks, by lock. */
export class CallbackIndex<Args extends readonly unknown[] = []> {
  readonly #byKey = new Map<string, Callbacks<Args>>();

  get isEmpty(): boolean {
    return this.#byKey.size === 0;
  }

  get keys(): readonly string[] {
    return [...this.#byKey.keys()];
  }

  /** Returns the function that removes the callback. It returns true when that was the key's last one. */
  add(key: string, callback: (...args: Args) => void): () => boolean {
    const callbacks = this.#byKey.get(key) ?? new Callbacks();
    this.#byKey.set(key, callbacks);
    const remove = callbacks.add(callback);
    return () => {
      const isLast = remove() && callbacks.isEmpty && this.#byKey.get(key) === callbacks;
      if (isLast) this.#byKey.delete(key);
      return isLast;
    };
  }

  call(key: string, ...args: Args): void {
    this.#byKey.get(key)?.call(...args);
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
