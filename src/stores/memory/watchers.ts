import type { WatchTarget } from '../../store/store.ts';

type Index = Map<string, Watcher>;

/** One who listens; others who listen to the same are chained behind it, which is rare. */
class Watcher implements AsyncDisposable {
  readonly wake: () => void;
  next: Watcher | undefined;
  readonly #index: Index;
  readonly #key: string;

  constructor(index: Index, key: string, wake: () => void) {
    this.wake = wake;
    this.next = index.get(key);
    this.#index = index;
    this.#key = key;
    index.set(key, this);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const first = this.#index.get(this.#key);
    if (first === this && this.next === undefined) this.#index.delete(this.#key);
    else if (first === this && this.next !== undefined) this.#index.set(this.#key, this.next);
    for (let each = first; each !== undefined; each = each.next) {
      if (each.next === this) each.next = this.next;
    }
  }
}

/** Who wants to hear of a lock, and who of one claim only. */
export class Watchers {
  readonly #byName: Index = new Map();
  readonly #byClaim: Index = new Map();

  add(target: WatchTarget, wake: () => void): AsyncDisposable {
    if (target.id === undefined) return new Watcher(this.#byName, target.name, wake);
    return new Watcher(this.#byClaim, target.id, wake);
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

function tell(watcher: Watcher | undefined): void {
  for (let each = watcher; each !== undefined; each = each.next) each.wake();
}
