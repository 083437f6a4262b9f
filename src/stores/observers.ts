import type { Clock, Timer } from '../clock.ts';

/** For how long the server tells us of a lock unless we ask again, and how often we do. */
export const OBSERVED_MS = 60_000;
const AGAIN_MS = 20_000;

/** `mayFree`: somebody may go on because of what has happened. */
export type OnChange = (mayFree: boolean) => void;

interface Observed {
  readonly wakes: Set<OnChange>;
  timer: Timer | null;
}

/** Who wants to hear of every change of a lock. The server knows while somebody does, so a lock that nobody observes tells nobody. */
export class Observers {
  readonly #clock: Clock;
  /** Asks the server to tell us of this lock for so long; 0: no more. */
  readonly #ask: (name: string, forMs: number) => Promise<void>;
  readonly #observed = new Map<string, Observed>();

  constructor(clock: Clock, ask: (name: string, forMs: number) => Promise<void>) {
    this.#clock = clock;
    this.#ask = ask;
  }

  get isEmpty(): boolean {
    return this.#observed.size === 0;
  }

  add(name: string, wake: OnChange): () => void {
    const observed = this.#observed.get(name) ?? { wakes: new Set(), timer: null };
    this.#observed.set(name, observed);
    // A fresh function: the same callback may watch twice.
    const own: OnChange = (mayFree) => wake(mayFree);
    observed.wakes.add(own);
    return () => {
      if (observed.wakes.delete(own) && observed.wakes.size === 0) this.#end(name, observed);
    };
  }

  /** Never rejects: this is a hint, and whoever observes asks now and then anyway. */
  async register(name: string): Promise<void> {
    const observed = this.#observed.get(name);
    if (observed === undefined) return;
    observed.timer?.cancel();
    observed.timer = this.#clock.startTimer(AGAIN_MS, () => void this.register(name));
    await this.#ask(name, OBSERVED_MS).catch(() => {});
  }

  tell(name: string, mayFree = true): void {
    for (const wake of this.#observed.get(name)?.wakes ?? []) wake(mayFree);
  }

  tellAll(): void {
    for (const name of [...this.#observed.keys()]) this.tell(name);
  }

  /** Something may have been missed. */
  onBreak(): void {
    for (const name of [...this.#observed.keys()]) {
      void this.register(name);
      this.tell(name);
    }
  }

  clear(): void {
    for (const observed of this.#observed.values()) observed.timer?.cancel();
    this.#observed.clear();
  }

  #end(name: string, observed: Observed): void {
    observed.timer?.cancel();
    if (this.#observed.get(name) !== observed) return;
    this.#observed.delete(name);
    void this.#ask(name, 0).catch(() => {});
  }
}
