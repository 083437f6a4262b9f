import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { isDefinite } from '../../util/error-code.ts';
import { Batch } from '../shared/batch.ts';
import type { FailureVerdict, Send } from '../shared/batch-options.ts';
import { ATTEMPT_MS, type Calls } from './calls.ts';
import type { RangeReply, RangeRequest, TxnReply, TxnRequest } from './client.ts';
import { isLong, LONG } from './queue.ts';

/** By default etcd accepts 128 operations in a transaction, nested operations included. */
const READS_MAX = 40;
const WRITES_MAX = 64;

export interface ReadResult {
  /** The cluster's revision at which the answer was read. */
  readonly revision: bigint;
  readonly term: number;
  readonly ranges: readonly RangeReply[];
}

export interface WriteResult extends ReadResult {
  readonly succeeded: boolean;
  /** When above 1, an earlier attempt whose answer was lost may have taken effect. */
  readonly attempts: number;
}

interface Read {
  readonly ranges: readonly RangeRequest[];
  readonly attemptMs?: number | undefined;
}

interface Write {
  readonly txn: TxnRequest;
  /**
   * Two writes that share one of these strings are never put into the same transaction. All keys
   * that a transaction creates have the same create revision, so two new claims of one lock would
   * have no order.
   */
  readonly conflicts: readonly string[];
  readonly attemptMs?: number;
  /**
   * Once it aborts, the write is not attempted again. The result is still awaited, because the
   * caller has to know whether a key was created.
   */
  readonly signal?: AbortSignal | undefined;
}

/** Reads and writes that a majority confirms. Those of one tick share one request to etcd. */
export class Transactions {
  readonly #calls: Calls;
  readonly #reads: Batch<Read, ReadResult>;
  readonly writes: Batch<Write, WriteResult>;

  constructor(calls: Calls, clock: Clock) {
    this.#calls = calls;
    const common = {
      clock,
      callsMax: Number.POSITIVE_INFINITY,
      onFailure: verdictOn,
      errors: {
        notSent: () => new StoreError('A transaction was not sent', { applied: 'no' }),
        noAnswer: () => new StoreError('A transaction was not answered', { applied: 'unknown' }),
        failed: (error: unknown) => error as Error,
      },
    };
    this.#reads = new Batch({
      ...common,
      itemsMax: READS_MAX,
      send: this.#sendReads,
      conflicts: ({ ranges }) => (ranges.some(isLong) ? [LONG] : []),
    });
    this.writes = new Batch({
      ...common,
      itemsMax: WRITES_MAX,
      send: this.#sendWrites,
      conflicts: (op) => op.conflicts,
    });
  }

  /** Reads at most three ranges. A transaction that only reads costs the cluster no write. */
  read(ranges: readonly RangeRequest[], attemptMs?: number): Promise<ReadResult> {
    return this.#reads.add({ ranges, attemptMs });
  }

  readonly #sendReads: Send<Read, ReadResult> = async (ops) => {
    const success = ops.flatMap(({ ranges }) => ranges.map((range) => ({ request_range: range })));
    const { reply } = await this.#calls.txn({ compare: [], success, failure: [] }, shortest(ops), () => true);
    const all = rangesOf(reply);
    let next = 0;
    return ops.map(({ ranges }) => {
      const own = all.slice(next, next + ranges.length);
      next += ranges.length;
      return { value: { ...seenIn(reply), ranges: own } };
    });
  };

  readonly #sendWrites: Send<Write, WriteResult> = async (ops) => {
    const [only] = ops;
    const alone = ops.length === 1 && only !== undefined;
    const outer: TxnRequest = alone
      ? only.txn
      : { compare: [], success: ops.map(({ txn }) => ({ request_txn: txn })), failure: [] };
    const isWanted = (): boolean => ops.some(({ signal }) => signal?.aborted !== true);
    const { reply, attempts } = await this.#calls.txn(outer, shortest(ops), isWanted);
    const seen = seenIn(reply);
    const replies = alone ? [reply] : reply.responses.map((response) => response.response_txn);
    return replies.map((inner) => ({
      value: {
        ...seen,
        attempts,
        succeeded: inner?.succeeded === true,
        ranges: inner == null ? [] : rangesOf(inner),
      },
    }));
  };
}

/** A refused operation fails the whole transaction, so each operation is then sent by itself. */
function verdictOn(error: unknown): FailureVerdict {
  return isDefinite(error) ? 'alone' : 'fail';
}

const shortest = (ops: readonly (Read | Write)[]): number =>
  Math.min(...ops.map((op) => op.attemptMs ?? ATTEMPT_MS));

function seenIn(reply: TxnReply): { revision: bigint; term: number } {
  return { revision: BigInt(reply.header.revision), term: Number(reply.header.raft_term) };
}

/** The answers to range requests, in order. The other answers are not needed. */
function rangesOf(reply: TxnReply): RangeReply[] {
  return reply.responses.flatMap(({ response_range }) => (response_range == null ? [] : [response_range]));
}
