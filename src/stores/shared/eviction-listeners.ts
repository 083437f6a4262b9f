import type { EvictionListener } from '../../store/store.ts';

/** The listeners of a store's `onEvicted`. */
export class EvictionListeners {
  readonly #listeners = new Set<EvictionListener>();

  /** To be used as the store's `onEvicted`. */
  readonly add = (listener: EvictionListener): (() => void) => {
    // A fresh function, so that the same listener added twice is removed on its own.
    const own: EvictionListener = (id) => listener(id);
    this.#listeners.add(own);
    return () => {
      this.#listeners.delete(own);
    };
  };

  tell(id: string | null): void {
    for (const listener of [...this.#listeners]) listener(id);
  }

  clear(): void {
    this.#listeners.clear();
  }
}
