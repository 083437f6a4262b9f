import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { isUnknown } from '../../util/error-code.ts';
import { Batch } from '../shared/batch.ts';
import type { Send } from '../shared/batch-options.ts';
import type { Calls, Created } from './calls.ts';
import { type Acl, CREATE } from './client.ts';
import type { EmptyLocks, LockNode } from './empty-locks.ts';
import { Queue } from './queue.ts';

/** How many requests share one transaction. Its request and its reply must each fit into a megabyte. */
const TOGETHER_MAX = 64;

interface Entry {
  /** The path of the lock node. The claim's node becomes a child of it. */
  readonly lock: string;
  readonly prefix: string;
  readonly data: Buffer;
  readonly acl: Acl | undefined;
  /** The claim is expected to be alone, so the queue is not counted along with it. */
  readonly isLikelyAlone: boolean;
}

interface Check {
  readonly path: string;
  /** The lock whose queue is read behind the check; `null`: none. */
  readonly lock: string | null;
}

/** The length of a queue. */
export interface Count {
  readonly count: number;
  /** The last transaction that changed the queue. */
  readonly zxid: bigint;
  /** The lock node, if it is watched from this reply on. */
  readonly lockNode: LockNode | null;
}

/** A created node, and the count that was sent right behind it. */
export interface Entered extends Created {
  readonly counted: Promise<Count> | null;
}

export interface Checked {
  readonly isThere: boolean;
  readonly queue: Promise<Queue> | null;
}

/**
 * Sends the writes of one tick as one transaction, each with its own result. A queue is read right
 * behind the write that needs it, without waiting for that write. Every member keeps the order of a
 * session's requests, so the queue is not older than the write.
 */
export class Transactions {
  readonly #calls: Calls;
  readonly #clock: Clock;
  /** Puts claims into queues. */
  readonly entries: Batch<Entry, Entered>;
  readonly #checks: Batch<Check, Checked>;
  readonly #removals: Batch<string, boolean>;
  readonly #counts: SharedReads<Count>;
  readonly #queues: SharedReads<Queue>;

  constructor(calls: Calls, emptyLocks: EmptyLocks, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
    this.#counts = new SharedReads(async (lock) => {
      const lockNode = emptyLocks.toWatch(lock);
      const { count, zxid } = await calls.countChildren(lock, lockNode?.broken);
      if (lockNode === null || count === 0) return { count, zxid, lockNode: null };
      emptyLocks.add(lock, lockNode);
      return { count, zxid, lockNode };
    });
    this.#queues = new SharedReads(async (lock) => new Queue(await calls.getChildren(lock)));
    // One transaction gives the same fence to all nodes that it creates, so it must not create two
    // claims of one lock.
    this.entries = this.#batch(({ lock }) => [lock], this.#enter);
    this.#checks = this.#batch(() => [], this.#check);
    this.#removals = this.#batch((path) => [path], this.#remove);
  }

  /** Reads a queue. Every request that was sent before is answered first. */
  read(lock: string): Promise<Queue> {
    return this.#queues.ask(lock);
  }

  /** Counts a queue. Every request that was sent before is answered first. */
  count(lock: string): Promise<Count> {
    return this.#counts.ask(lock);
  }

  /** Whether a node exists, according to the leader and a majority. With a lock, reads its queue too. */
  check(path: string, lock: string | null): Promise<Checked> {
    return this.#checks.add({ path, lock }, undefined);
  }

  /** Resolves to whether this call removed the node. */
  remove(path: string): Promise<boolean> {
    return this.#removals.add(path, undefined);
  }

  #batch<Request, Result>(
    conflicts: (request: Request) => readonly string[],
    send: Send<Request, Result>,
  ): Batch<Request, Result> {
    return new Batch<Request, Result>({
      clock: this.#clock,
      itemsMax: TOGETHER_MAX,
      callsMax: Number.POSITIVE_INFINITY,
      conflicts,
      send,
      // A refused request fails the whole transaction, of which nothing is applied.
      onFailure: (error) => (isUnknown(error) ? 'fail' : 'alone'),
      errors: {
        notSent: () => new StoreError('The request was not sent in time', { applied: 'no' }),
        noAnswer: () => new StoreError('ZooKeeper did not answer in time', { applied: 'unknown' }),
        failed: (error) => error as Error,
      },
    });
  }

  readonly #enter: Send<Entry, Entered> = async (entries) => {
    const [first] = entries;
    const created =
      first !== undefined && entries.length === 1
        ? [this.#calls.create(`${first.lock}/${first.prefix}`, first.data, first.acl, true)]
        : this.#createAll(entries);
    const counts = entries.map(({ lock, isLikelyAlone }) => (isLikelyAlone ? null : this.#counts.ask(lock)));
    const made = await Promise.all(created);
    return made.map((each, n) => ({ value: { ...each, counted: counts[n] ?? null } }));
  };

  #createAll(entries: readonly Entry[]): Promise<Created>[] {
    const sent = this.#calls.multi((transaction) => {
      for (const { lock, prefix, data, acl } of entries)
        transaction.create(`${lock}/${prefix}`, data, acl, CREATE.ephemeralSequential);
    });
    return entries.map(async (_, n) => {
      const { results, zxid } = await sent;
      return { path: results[n]?.path ?? '', zxid };
    });
  }

  readonly #check: Send<Check, Checked> = async (checks) => {
    const sent = this.#calls.check(checks.map(({ path }) => path));
    const queues = checks.map(({ lock }) => (lock === null ? null : this.#queues.ask(lock)));
    const isThere = await sent;
    return queues.map((queue) => ({ value: { isThere, queue } }));
  };

  readonly #remove: Send<string, boolean> = async (paths) => {
    const [first] = paths;
    if (first !== undefined && paths.length === 1) return [{ value: await this.#calls.remove(first) }];
    await this.#calls.multi((transaction) => {
      for (const path of paths) transaction.remove(path);
    });
    return paths.map(() => ({ value: true }));
  };
}

/** Reads at the end of the tick, behind all its writes. Reads of one lock in one tick share the reply. */
export class SharedReads<T> {
  readonly read: (lock: string) => Promise<T>;
  readonly #next = new Map<string, Promise<T>>();

  constructor(read: (lock: string) => Promise<T>) {
    this.read = read;
  }

  ask(lock: string): Promise<T> {
    const found = this.#next.get(lock);
    if (found !== undefined) return found;
    const answer = new Promise<T>((resolve, reject) => {
      process.nextTick(() => {
        this.#next.delete(lock);
        this.read(lock).then(resolve, reject);
      });
    });
    // The caller may not need the reply any more. Then its failure must not be reported as
    // unhandled.
    answer.catch(() => {});
    this.#next.set(lock, answer);
    return answer;
  }
}
