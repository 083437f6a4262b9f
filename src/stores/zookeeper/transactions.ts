import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { isUnknown } from '../../util/error-code.ts';
import { Turns } from '../../util/turns.ts';
import { Batch } from '../shared/batch.ts';
import type { Send } from '../shared/batch-options.ts';
import type { Calls, NewNode } from './calls.ts';
import { Queue } from './queue.ts';

const OPTIONS = {
  /** A transaction's request and its reply must each fit into a megabyte. */
  itemsMax: 64,
  callsMax: Number.POSITIVE_INFINITY,
  // A refused request fails the whole transaction, of which nothing is applied.
  onFailure: (error: unknown) => (isUnknown(error) ? 'fail' : 'alone'),
  errors: {
    notSent: () => new StoreError('The request was not sent in time', { applied: 'no' }),
    noAnswer: () => new StoreError('ZooKeeper did not answer in time', { applied: 'unknown' }),
    failed: (error: unknown) => error as Error,
  },
} as const;

/** The node of a new claim. */
interface Entry extends NewNode {
  /** The path of the lock node, which is the parent. */
  readonly lock: string;
}

/** A created node, and the queue that was read right behind it. */
interface Entered {
  readonly path: string;
  /** The transaction that created the node; `null` when the client does not show it. */
  readonly zxid: bigint | null;
  /** Decides whether the claim is granted. */
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
  readonly entries: Batch<Entry, Entered>;
  readonly #checks: Batch<Check, Checked>;
  /** Each resolves to whether it has removed the node. */
  readonly removals: Batch<string, boolean>;
  /** By lock: the read of its queue that was not sent yet. */
  readonly #nextReads = new Map<string, Promise<Queue>>();
  /** One read of a queue at a time. */
  readonly #reads = new Turns();

  constructor(calls: Calls, clock: Clock) {
    this.#calls = calls;
    const options = { ...OPTIONS, clock };
    // One transaction gives the same fence to all nodes that it creates, so it must not create two
    // claims of one lock.
    this.entries = new Batch({ ...options, conflicts: ({ lock }) => [lock], send: this.#enter });
    this.#checks = new Batch({ ...options, send: this.#check });
    this.removals = new Batch({ ...options, conflicts: (path) => [path], send: this.#remove });
  }

  /** Whether a node exists, according to the leader and a majority. */
  async check(path: string): Promise<boolean> {
    return (await this.#checks.add({ path, isLock: false })).isThere;
  }

  /** Reads a queue, not older than this call; empty when the lock has no node. */
  async read(lock: string): Promise<Queue> {
    const { isThere, queue } = await this.#checks.add({ path: lock, isLock: true });
    return isThere && queue !== null ? await queue : new Queue([]);
  }

  /**
   * Reads a queue behind all writes that were sent before. Requests that come while another read is
   * pending share the next one, so many claims that enter at once cause few reads.
   */
  readBehind(lock: string): Promise<Queue> {
    const found = this.#nextReads.get(lock);
    if (found !== undefined) return found;
    const answer = this.#readInTurn(lock);
    // A caller whose write has failed does not await this.
    answer.catch(() => {});
    this.#nextReads.set(lock, answer);
    return answer;
  }

  async #readInTurn(lock: string): Promise<Queue> {
    // The running code sends more writes of this tick. This read must be sent behind them.
    await Promise.resolve();
    const turn = this.#reads.begin(lock);
    const endTurn = turn instanceof Promise ? await turn : turn;
    this.#nextReads.delete(lock);
    try {
      return await this.readNow(lock);
    } finally {
      endTurn();
    }
  }

  async readNow(lock: string): Promise<Queue> {
    return new Queue((await this.#calls.getChildren(lock)) ?? []);
  }

  readonly #enter: Send<Entry, Entered> = async (entries) => {
    const created = this.#calls.create(entries);
    const queues = entries.map(({ lock }) => this.readBehind(lock));
    const { paths, zxid } = await created;
    return queues.map((queue, n) => ({ value: { path: paths[n] ?? '', zxid, queue } }));
  };

  readonly #check: Send<Check, Checked> = async (checks) => {
    const checked = this.#calls.check(checks.map(({ path }) => path));
    const queues = checks.map(({ path, isLock }) => (isLock ? this.readBehind(path) : null));
    const isThere = await checked;
    return queues.map((queue) => ({ value: { isThere, queue } }));
  };

  readonly #remove: Send<string, boolean> = async (paths) => {
    const isRemoved = await this.#calls.remove(paths);
    return paths.map(() => ({ value: isRemoved }));
  };
}
