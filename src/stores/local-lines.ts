import type { Clock, Timer } from '../clock.ts';

/** The waiters of this process for one lock, in the order in which they came. */
interface LocalLine {
  readonly wakes: Map<string, Set<() => void>>;
  /** When the hold in front of them ends unless it is renewed, as far as anybody here knows. */
  dueAtMs: number;
  timer: Timer | null;
}

/**
 * Who waits here, and who of them looks after the lock: for each lock, only the first waiter of a process asks again when the hold in front of it would
 * end. The others are woken, or only keep their places. When the first one leaves, the next takes over.
 */
export class LocalLines {
  readonly #clock: Clock;
  readonly #lines = new Map<string, LocalLine>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isEmpty(): boolean {
    return this.#lines.size === 0;
  }

  add(name: string, id: string, wake: () => void): () => void {
    let line = this.#lines.get(name);
    if (line === undefined) {
      line = { wakes: new Map(), dueAtMs: Number.POSITIVE_INFINITY, timer: null };
      this.#lines.set(name, line);
    }
    const wakes = line.wakes.get(id) ?? new Set();
    line.wakes.set(id, wakes);
    // A fresh function: the same callback may watch twice.
    const own = (): void => wake();
    wakes.add(own);
    return () => {
      if (wakes.delete(own) && wakes.size === 0) this.#remove(name, id);
    };
  }

  has(name: string, id: string): boolean {
    return this.#lines.get(name)?.wakes.has(id) === true;
  }

  /** Whether this claim is the one that looks after the lock for this process; also when nobody listens yet. */
  isFirst(name: string, id: string): boolean {
    const line = this.#lines.get(name);
    if (line === undefined) return true;
    const [first] = line.wakes.keys();
    return first === undefined || first === id;
  }

  /** The hold in front ends in this many ms unless it is renewed. */
  setDue(name: string, ms: number): void {
    const line = this.isEmpty ? undefined : this.#lines.get(name);
    if (line !== undefined) line.dueAtMs = this.#clock.monotonicMs() + ms;
  }

  wake(name: string, id: string): void {
    for (const wake of this.#lines.get(name)?.wakes.get(id) ?? []) wake();
  }

  wakeFirst(name: string): void {
    const [first] = this.#lines.get(name)?.wakes.keys() ?? [];
    if (first !== undefined) this.wake(name, first);
  }

  /** Wakes whoever looks after each lock. */
  wakeFirsts(): void {
    for (const [name, { wakes }] of [...this.#lines]) {
      const [first] = wakes.keys();
      if (first !== undefined) this.wake(name, first);
    }
  }

  wakeAll(): void {
    for (const line of [...this.#lines.values()]) {
      for (const wakes of [...line.wakes.values()]) for (const wake of wakes) wake();
    }
  }

  clear(): void {
    for (const line of this.#lines.values()) line.timer?.cancel();
    this.#lines.clear();
  }

  #remove(name: string, id: string): void {
    const line = this.#lines.get(name);
    if (line === undefined) return;
    const wasFirst = this.isFirst(name, id);
    line.wakes.delete(id);
    if (line.wakes.size === 0) {
      line.timer?.cancel();
      this.#lines.delete(name);
    } else if (wasFirst) this.#handOn(name, line);
  }

  /** The next one did not know that it would have to look: it is woken when the hold in front ends. */
  #handOn(name: string, line: LocalLine): void {
    line.timer?.cancel();
    line.timer = null;
    if (line.dueAtMs === Number.POSITIVE_INFINITY) return;
    line.timer = this.#clock.startTimer(Math.max(line.dueAtMs - this.#clock.monotonicMs(), 0), () => {
      line.timer = null;
      this.wakeFirst(name);
    });
  }
}
