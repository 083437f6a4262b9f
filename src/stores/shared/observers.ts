import type { Clock, Timer } from '../../clock.ts';

/** How long a registration at the server lasts, and how often it is repeated. */
export const OBSERVED_MS = 60_000;
const AGAIN_MS = 20_000;

/** `mayFree`: the change may allow a waiting claim to be granted. */
export type OnChange = (mayFree: boolean) => void;

interface Observed {
  readonly wakes: Set<OnChange>;
  timer: Timer | null;
}

/**
 * The observers of this process, by lock. They are registered at the server, so that the server
 * sends no messages about a lock without observers.
 */
export class Observers {
  readonly #clock: Clock;
  /** Asks the server to report changes of this lock for `forMs`; 0 ends the reports. */
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
    // A new function for each call, because the same callback may be given twice.
    const own: OnChange = (mayFree) => wake(mayFree);
    observed.wakes.add(own);
    return () => {
      if (observed.wakes.delete(own) && observed.wakes.size === 0) this.#end(name, observed);
    };
  }

  /** Never rejects: messages are hints, and observers also poll. */
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

  /** Messages may have been missed. */
  onBreak(): void {
    for (const name of [...this.#observed.keys()]) {
      // An observer that was only just added is about to be registered.
      if (this.#observed.get(name)?.timer !== null) void this.register(name);
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
