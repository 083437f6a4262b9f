import { Batch } from '../batch.ts';
import type { Calls, Created } from './calls.ts';
import { type Acl, CREATE } from './client.ts';
import { Line } from './line.ts';
import type { LockNode, Vacancies } from './vacancies.ts';

/** What one transaction takes. Its answer must fit into a megabyte, as must the request. */
const TOGETHER_MAX = 64;

interface Entry {
  /** Of the lock; the claim's node becomes a child of it. */
  readonly lock: string;
  readonly prefix: string;
  readonly data: Buffer;
  readonly acl: Acl | undefined;
  /** Whether it need not be counted who else is there. */
  readonly isLikelyAlone: boolean;
}

interface Check {
  readonly path: string;
  readonly lock: string | null;
}

/** How many stand in a line. */
export interface Count {
  readonly count: number;
  /** The last transaction that changed it. */
  readonly zxid: bigint;
  /** The lock's node, when it is watched from this answer on. */
  readonly lockNode: LockNode | null;
}

/** What a write came to, and the count that was asked for right behind it. */
export interface Entered extends Created {
  readonly counted: Promise<Count> | null;
}

export interface Checked {
  readonly isThere: boolean;
  readonly line: Promise<Line> | null;
}

/**
 * Writes of one tick that travel as one transaction, each with its own result. A line is read right behind the write that it is needed for, without waiting for that: the server keeps the order of a session's requests, so what
 * is read is not older than what was written, on whatever member.
 */
export class Writes {
  readonly #calls: Calls;
  readonly #entries: Batch<Entry, Entered>;
  readonly #checks: Batch<Check, Checked>;
  readonly #removals: Batch<string, boolean>;
  readonly #counts: Reads<Count>;
  readonly #looks: Reads<Line>;

  constructor(calls: Calls, vacancies: Vacancies) {
    this.#calls = calls;
    this.#counts = new Reads(async (lock) => {
      const lockNode = vacancies.toWatch(lock);
      const { count, zxid } = await calls.countChildren(lock, lockNode?.broken);
      if (lockNode === null || count === 0) return { count, zxid, lockNode: null };
      vacancies.add(lock, lockNode);
      return { count, zxid, lockNode };
    });
    this.#looks = new Reads(async (lock) => new Line(await calls.getChildren(lock)));
    this.#entries = new Batch({
      max: TOGETHER_MAX,
      send: (ops) => this.#enter(ops),
      // Two claims of one lock must not be created by one transaction: it would give both the same fence.
      conflicts: ({ lock }) => [lock],
    });
    this.#checks = new Batch({
      max: TOGETHER_MAX,
      send: (ops) => this.#check(ops),
      conflicts: () => [],
    });
    this.#removals = new Batch({
      max: TOGETHER_MAX,
      send: (ops) => this.#remove(ops),
      conflicts: (path) => [path],
    });
  }

  /** Puts a claim into a line. */
  enter(entry: Entry): Promise<Entered> {
    return this.#entries.add(entry);
  }

  /** Reads a line, behind everything that has been sent by now. */
  look(lock: string): Promise<Line> {
    return this.#looks.ask(lock);
  }

  /** How many stand in a line, behind everything that has been sent by now. */
  count(lock: string): Promise<Count> {
    return this.#counts.ask(lock);
  }

  /** Is a node there, for the leader and a majority? With a lock, its line is read too. */
  check(path: string, lock: string | null): Promise<Checked> {
    return this.#checks.add({ path, lock });
  }

  /** Whether this call removed it. */
  remove(path: string): Promise<boolean> {
    return this.#removals.add(path);
  }

  async #enter(ops: readonly Entry[]): Promise<readonly Entered[]> {
    if (!ops.every((op) => op.isLikelyAlone)) this.#calls.together();
    const sent = this.#create(ops);
    const counts = ops.map(({ lock, isLikelyAlone }) => (isLikelyAlone ? null : this.#counts.ask(lock)));
    const made = await sent;
    return made.map((created, n) => ({ ...created, counted: counts[n] ?? null }));
  }

  async #create(ops: readonly Entry[]): Promise<readonly Created[]> {
    const [first] = ops;
    if (first !== undefined && ops.length === 1)
      return [await this.#calls.create(`${first.lock}/${first.prefix}`, first.data, first.acl, true)];
    const { results, zxid } = await this.#calls.multi((transaction) => {
      for (const { lock, prefix, data, acl } of ops)
        transaction.create(`${lock}/${prefix}`, data, acl, CREATE.ephemeralSequential);
    });
    return ops.map((_, n) => ({ path: results[n]?.path ?? '', zxid }));
  }

  async #check(ops: readonly Check[]): Promise<readonly Checked[]> {
    const [first] = ops;
    const lookAt = (lock: string | null): Promise<Line> | null =>
      lock === null ? null : this.#looks.ask(lock);
    if (ops.some(({ lock }) => lock !== null)) this.#calls.together();
    if (first !== undefined && ops.length === 1) {
      const checked = this.#calls.check(first.path);
      const line = lookAt(first.lock);
      return [{ isThere: await checked, line }];
    }
    const sent = this.#calls.multi((transaction) => {
      for (const { path } of ops) transaction.check(path);
    });
    const lines = ops.map(({ lock }) => lookAt(lock));
    await sent;
    return lines.map((line) => ({ isThere: true, line }));
  }

  async #remove(paths: readonly string[]): Promise<readonly boolean[]> {
    const [first] = paths;
    if (first !== undefined && paths.length === 1) return [await this.#calls.remove(first)];
    await this.#calls.multi((transaction) => {
      for (const path of paths) transaction.remove(path);
    });
    return paths.map(() => true);
  }
}

/** Reads something of a lock behind everything that has been sent by now. Those who ask in one tick share the answer. */
class Reads<T> {
  readonly #send: (lock: string) => Promise<T>;
  readonly #next = new Map<string, Promise<T>>();

  constructor(send: (lock: string) => Promise<T>) {
    this.#send = send;
  }

  ask(lock: string): Promise<T> {
    const found = this.#next.get(lock);
    if (found !== undefined) return found;
    const answer = new Promise<T>((resolve, reject) => {
      process.nextTick(() => {
        this.#next.delete(lock);
        this.#send(lock).then(resolve, reject);
      });
    });
    // Whoever does not need it any more does not hear of its failure.
    answer.catch(() => {});
    this.#next.set(lock, answer);
    return answer;
  }
}
