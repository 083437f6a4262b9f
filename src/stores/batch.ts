import { StoreError } from '../errors.ts';

/** Small operations of one tick that travel as one call, each with its own result. */
export interface BatchOptions<Op, Result> {
  /** How many travel together at most. */
  readonly max: number;
  send(ops: readonly Op[]): Promise<readonly Result[]>;
  /** Two operations with a key in common must not travel together, and are sent in order. */
  conflicts(op: Op): readonly string[];
}

interface Pending<Op, Result> {
  readonly op: Op;
  resolve(result: Result): void;
  reject(error: unknown): void;
}

export class Batch<Op, Result> {
  readonly #options: BatchOptions<Op, Result>;
  #queue: Pending<Op, Result>[] = [];

  constructor(options: BatchOptions<Op, Result>) {
    this.#options = options;
  }

  add(op: Op): Promise<Result> {
    return new Promise((resolve, reject) => {
      // The tick's queue runs when all promises that are ready have been served, and those add to the batch too.
      if (this.#queue.length === 0) process.nextTick(() => this.#flush());
      this.#queue.push({ op, resolve, reject });
    });
  }

  #flush(): void {
    const queue = this.#queue;
    this.#queue = [];
    for (const group of this.#groups(queue)) void this.#send(group);
  }

  #groups(queue: readonly Pending<Op, Result>[]): Pending<Op, Result>[][] {
    if (queue.length === 1) return [[...queue]];
    const groups: { items: Pending<Op, Result>[]; taken: Set<string> }[] = [];
    for (const item of queue) {
      const keys = this.#options.conflicts(item.op);
      const last = groups.at(-1);
      const fits =
        last !== undefined &&
        last.items.length < this.#options.max &&
        !keys.some((key) => last.taken.has(key));
      const group = fits ? last : { items: [], taken: new Set<string>() };
      if (!fits) groups.push(group);
      group.items.push(item);
      for (const key of keys) group.taken.add(key);
    }
    return groups.map((group) => group.items);
  }

  async #send(group: readonly Pending<Op, Result>[]): Promise<void> {
    try {
      const results = await this.#options.send(group.map((item) => item.op));
      for (const [n, item] of group.entries()) item.resolve(results[n] as Result);
    } catch (error) {
      // One operation that is turned down fails the whole transaction: nothing of it happened, so each is tried by itself.
      if (group.length > 1 && error instanceof StoreError && error.applied === 'no') {
        for (const item of group) void this.#send([item]);
        return;
      }
      for (const item of group) item.reject(error);
    }
  }
}
