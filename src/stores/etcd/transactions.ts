import { Batch } from '../batch.ts';
import { ATTEMPT_MS, type Calls } from './calls.ts';
import type { RangeReply, RangeRequest, TxnReply, TxnRequest } from './client.ts';
import { isLong, LONG } from './line.ts';

/** etcd takes 128 operations in a transaction unless it is told otherwise; nesting takes from the same budget. */
const READS_MAX = 40;
const WRITES_MAX = 64;

/** Where an answer stands in the cluster's history. */
interface Seen {
  readonly revision: bigint;
  readonly term: number;
}

export interface ReadResult extends Seen {
  readonly ranges: readonly RangeReply[];
}

export interface WriteResult extends ReadResult {
  readonly succeeded: boolean;
  /** More than one: an earlier try may have had its effect, and its answer was lost. */
  readonly attempts: number;
}

interface Read {
  readonly ranges: readonly RangeRequest[];
  readonly attemptMs: number;
}

interface Write {
  readonly txn: TxnRequest;
  readonly conflicts: readonly string[];
  readonly attemptMs: number;
}

/** Reads and writes of the whole store. Both are confirmed by a majority; those of one tick travel together. */
export class Transactions {
  readonly #calls: Calls;
  readonly #reads: Batch<Read, ReadResult>;
  readonly #writes: Batch<Write, WriteResult>;

  constructor(calls: Calls) {
    this.#calls = calls;
    this.#reads = new Batch({
      max: READS_MAX,
      send: (ops) => this.#sendReads(ops),
      conflicts: ({ ranges }) => (ranges.some(isLong) ? [LONG] : []),
    });
    this.#writes = new Batch({
      max: WRITES_MAX,
      send: (ops) => this.#sendWrites(ops),
      conflicts: (op) => op.conflicts,
    });
  }

  /** At most three ranges. A transaction that only reads costs the cluster no write. */
  read(ranges: readonly RangeRequest[], attemptMs = ATTEMPT_MS): Promise<ReadResult> {
    return this.#reads.add({ ranges, attemptMs });
  }

  /**
   * `conflicts`: writes that share one do not travel together. All keys that one transaction creates have the same create revision, so that two new claims of one lock
   * in it would have no order.
   */
  write(txn: TxnRequest, conflicts: readonly string[], attemptMs = ATTEMPT_MS): Promise<WriteResult> {
    return this.#writes.add({ txn, conflicts, attemptMs });
  }

  async #sendReads(ops: readonly Read[]): Promise<ReadResult[]> {
    const success = ops.flatMap(({ ranges }) => ranges.map((range) => ({ request_range: range })));
    const { reply } = await this.#calls.txn({ compare: [], success, failure: [] }, shortest(ops));
    const all = rangesOf(reply);
    let next = 0;
    return ops.map(({ ranges }) => {
      const own = all.slice(next, next + ranges.length);
      next += ranges.length;
      return { ...seenIn(reply), ranges: own };
    });
  }

  async #sendWrites(ops: readonly Write[]): Promise<WriteResult[]> {
    const [only] = ops;
    const alone = ops.length === 1 && only !== undefined;
    const outer: TxnRequest = alone
      ? only.txn
      : { compare: [], success: ops.map(({ txn }) => ({ request_txn: txn })), failure: [] };
    const { reply, attempts } = await this.#calls.txn(outer, shortest(ops));
    const seen = seenIn(reply);
    const replies = alone ? [reply] : reply.responses.map((response) => response.response_txn);
    return replies.map((inner) => ({
      ...seen,
      attempts,
      succeeded: inner?.succeeded === true,
      ranges: inner == null ? [] : rangesOf(inner),
    }));
  }
}

const shortest = (ops: readonly { readonly attemptMs: number }[]): number =>
  Math.min(...ops.map((op) => op.attemptMs));

function seenIn(reply: TxnReply): Seen {
  return { revision: BigInt(reply.header.revision), term: Number(reply.header.raft_term) };
}

/** The answers to range requests, in order; other answers carry nothing that is needed. */
function rangesOf(reply: TxnReply): RangeReply[] {
  return reply.responses.flatMap(({ response_range }) => (response_range == null ? [] : [response_range]));
}
