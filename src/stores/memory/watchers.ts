import type { WatchTarget } from '../../store/store.ts';

/** Who wants to hear of a lock, and who of one claim only. */
export class Watchers {
  readonly #byName = new Map<string, Set<() => void>>();
  readonly #byClaim = new Map<string, Set<() => void>>();

  add(target: WatchTarget, wake: () => void): AsyncDisposable {
    const [index, key] = target.id === undefined ? [this.#byName, target.name] : [this.#byClaim, target.id];
    const wakes = index.get(key) ?? new Set();
    index.set(key, wakes);
    // A fresh function: the same callback may watch twice.
    const own = (): void => wake();
    wakes.add(own);
    return {
      async [Symbol.asyncDispose]() {
        wakes.delete(own);
        if (wakes.size === 0 && index.get(key) === wakes) index.delete(key);
      },
    };
  }

  tellName(name: string): void {
    if (this.#byName.size > 0) tell(this.#byName.get(name));
  }

  tellClaim(id: string): void {
    tell(this.#byClaim.get(id));
  }

  clear(): void {
    this.#byName.clear();
    this.#byClaim.clear();
  }
}

function tell(wakes: ReadonlySet<() => void> | undefined): void {
  for (const wake of wakes ?? []) wake();
}
