import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { isDefinite } from '../../util/error-code.ts';
import { Batch } from '../shared/batch.ts';
import type { FailureVerdict, Send } from '../shared/batch-options.ts';
import { ATTEMPT_MS, type Calls } from './calls.ts';
import type { KeyValue, RangeReply, RangeRequest, RequestOp, TxnReply, TxnRequest } from './client.ts';

/** By default etcd accepts 128 operations in a transaction, nested operations included. */
const READS_MAX = 40;
const WRITES_MAX = 64;
/** How many keys are read at once. With the longest names and notes they fit into 4 MB. */
export const PAGE = 500;
/** Answers with more keys do not share a transaction, because its whole answer must fit too. */
const SHORT = 16;

export interface ReadResult {
  /** Whether the comparisons were true. */
  readonly succeeded: boolean;
  /** The cluster's revision at which the answer was read. */
  readonly revision: bigint;
  readonly term: number;
  readonly ranges: readonly RangeReply[];
}

export interface WriteResult extends ReadResult {
  /** When above 1, an earlier attempt whose answer was lost may have taken effect. */
  readonly attempts: number;
}

interface Read {
  readonly ranges: readonly RangeRequest[];
  readonly attemptMs?: number | undefined;
}

export interface Write {
  readonly txn: TxnRequest;
  /**
   * Two writes with the same one are never put into the same transaction: the key that is written,
   * or the lock of a new claim. All keys that a transaction creates have the same create revision,
   * so two new claims of one lock would have no order.
   */
  readonly conflict: Buffer;
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
  /** Writes of one tick share a transaction, unless they conflict. */
  readonly writes: Batch<Write, WriteResult>;

  constructor(calls: Calls, clock: Clock) {
    this.#calls = calls;
    const common = {
      clock,
      callsMax: Number.POSITIVE_INFINITY,
      // A refused operation fails the whole transaction, so each operation is then sent by itself.
      onFailure: (error: unknown) => (isDefinite(error) ? 'alone' : 'fail') as FailureVerdict,
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
      isAlone: ({ ranges }) => ranges.some(isLong),
    });
    this.writes = new Batch({
      ...common,
      itemsMax: WRITES_MAX,
      send: this.#sendWrites,
      conflicts: ({ conflict }) => [conflict.toString('latin1')],
      isAlone: ({ txn }) => [...txn.success, ...txn.failure].some(readsLong),
    });
  }

  /** Reads at most three ranges. A transaction that only reads costs the cluster no write. */
  read(ranges: readonly RangeRequest[], attemptMs?: number): Promise<ReadResult> {
    return this.#reads.add({ ranges, attemptMs });
  }

  /**
   * All keys of a range, page by page, in the order of the keys. A key that is created meanwhile may
   * be missing.
   */
  async *keys(from: Buffer, end: Buffer, keysOnly: boolean): AsyncGenerator<KeyValue, void, undefined> {
    for (let key = from; ; ) {
      const { ranges } = await this.read([{ key, range_end: end, limit: PAGE, keys_only: keysOnly }]);
      const kvs = ranges[0]?.kvs ?? [];
      yield* kvs;
      const last = kvs.at(-1);
      if (last === undefined || kvs.length < PAGE) return;
      key = Buffer.concat([last.key, Buffer.from([0])]);
    }
  }

  readonly #sendReads: Send<Read, ReadResult> = async (ops) => {
    const success = ops.flatMap(({ ranges }) => ranges.map((range) => ({ request_range: range })));
    const { reply } = await this.#calls.txn({ compare: [], success, failure: [] }, shortest(ops));
    const all = resultOf(reply, reply);
    return ops.map(({ ranges }) => ({ value: { ...all, ranges: all.ranges.splice(0, ranges.length) } }));
  };

  readonly #sendWrites: Send<Write, WriteResult> = async (ops) => {
    const [only] = ops;
    const alone = ops.length === 1 && only !== undefined;
    const outer: TxnRequest = alone
      ? only.txn
      : { compare: [], success: ops.map(({ txn }) => ({ request_txn: txn })), failure: [] };
    const isWanted = (): boolean => ops.some(({ signal }) => signal?.aborted !== true);
    const { reply, attempts } = await this.#calls.txn(outer, shortest(ops), isWanted);
    const replies = alone ? [reply] : reply.responses.map((response) => response.response_txn);
    return replies.map((inner) => ({ value: { ...resultOf(reply, inner), attempts } }));
  };
}

const isLong = ({ limit = 1 }: RangeRequest): boolean => limit > SHORT;

const readsLong = (op: RequestOp): boolean => 'request_range' in op && isLong(op.request_range);

const shortest = (ops: readonly (Read | Write)[]): number =>
  Math.min(...ops.map((op) => op.attemptMs ?? ATTEMPT_MS));

/** `ranges`: the answers to range requests, in order. The other answers are not needed. */
function resultOf({ header }: TxnReply, inner: TxnReply | null | undefined) {
  return {
    revision: BigInt(header.revision),
    term: Number(header.raft_term),
    succeeded: inner?.succeeded === true,
    ranges: (inner?.responses ?? []).flatMap(({ response_range }) => response_range ?? []),
  };
}
