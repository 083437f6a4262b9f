import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { isUnknown } from '../../util/error-code.ts';
import { Turns } from '../../util/turns.ts';
import { Batch } from '../shared/batch.ts';
import type { Send } from '../shared/batch-options.ts';
import type { Calls, Created } from './calls.ts';
import { type Acl, CREATE } from './client.ts';
import { Queue } from './queue.ts';

/** How many requests share one transaction. Its request and its reply must each fit into a megabyte. */
const TOGETHER_MAX = 64;

interface Entry {
  /** The path of the lock node. The claim's node becomes a child of it. */
  readonly lock: string;
  readonly prefix: string;
  readonly data: Buffer;
  readonly acl: Acl | undefined;
}

/** A created node, and the queue that was read right behind it. */
export interface Entered extends Created {
  readonly queue: Promise<Queue>;
}

interface Check {
  readonly path: string;
  /** It is a lock node, whose queue is read behind the check. */
  readonly isLock: boolean;
}

interface Checked {
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
  readonly #queues: QueueReads;

  constructor(calls: Calls, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
    this.#queues = new QueueReads(calls);
    // One transaction gives the same fence to all nodes that it creates, so it must not create two
    // claims of one lock.
    this.entries = this.#batch(({ lock }) => [lock], this.#enter);
    this.#checks = this.#batch(() => [], this.#check);
    this.#removals = this.#batch((path) => [path], this.#remove);
  }

  /** Whether a node exists, according to the leader and a majority. */
  async check(path: string): Promise<boolean> {
    return (await this.#checks.add({ path, isLock: false })).isThere;
  }

  /** Reads a queue, not older than this call; `null` when the lock has no node. */
  async read(lock: string): Promise<Queue | null> {
    const { isThere, queue } = await this.#checks.add({ path: lock, isLock: true });
    return isThere ? await queue : null;
  }

  /** Resolves to whether this call removed the node. */
  remove(path: string): Promise<boolean> {
    return this.#removals.add(path);
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
    const created = this.#create(entries);
    const queues = entries.map(({ lock }) => this.#queues.ask(lock));
    const { paths, zxid } = await created;
    return queues.map((queue, n) => ({ value: { path: paths[n] ?? '', zxid, queue } }));
  };

  async #create(entries: readonly Entry[]): Promise<{ paths: readonly string[]; zxid: bigint | null }> {
    const [first] = entries;
    if (first !== undefined && entries.length === 1) {
      const { path, zxid } = await this.#calls.create(
        `${first.lock}/${first.prefix}`,
        first.data,
        first.acl,
        true,
      );
      return { paths: [path], zxid };
    }
    const { results, zxid } = await this.#calls.multi((transaction) => {
      for (const { lock, prefix, data, acl } of entries)
        transaction.create(`${lock}/${prefix}`, data, acl, CREATE.ephemeralSequential);
    });
    return { paths: results.map(({ path = '' }) => path), zxid };
  }

  readonly #check: Send<Check, Checked> = async (checks) => {
    const sent = this.#calls.check(checks.map(({ path }) => path));
    const queues = checks.map(({ path, isLock }) => (isLock ? this.#queues.ask(path) : null));
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

/**
 * Reads a queue behind all writes that were sent before, one read of a queue at a time. Requests
 * that come meanwhile share the next read, so a crowd that enters a long queue reads it rarely.
 */
export class QueueReads {
  readonly #calls: Calls;
  readonly #turns = new Turns();
  /** By lock: the read that was not sent yet. */
  readonly #next = new Map<string, Promise<Queue>>();

  constructor(calls: Calls) {
    this.#calls = calls;
  }

  ask(lock: string): Promise<Queue> {
    const found = this.#next.get(lock);
    if (found !== undefined) return found;
    const answer = this.#readInTurn(lock);
    // The caller may not need the reply any more. Then its failure must not be reported as
    // unhandled.
    answer.catch(() => {});
    this.#next.set(lock, answer);
    return answer;
  }

  async read(lock: string): Promise<Queue> {
    return new Queue(await this.#calls.getChildren(lock));
  }

  async #readInTurn(lock: string): Promise<Queue> {
    // The running code sends all writes of this tick.
    await null;
    return await this.#turns.run(lock, () => {
      this.#next.delete(lock);
      return this.read(lock);
    });
  }
}
