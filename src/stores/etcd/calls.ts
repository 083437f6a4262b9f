import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { type Instant, instant } from '../../store/validity.ts';
import { isDefinite } from '../../util/error-code.ts';
import { Batch } from '../shared/batch.ts';
import type { FailureVerdict, Send } from '../shared/batch-options.ts';
import type {
  DiagnosedClient,
  EtcdClient,
  KeyValue,
  LeaseReply,
  Member,
  RangeReply,
  RangeRequest,
  RequestOp,
  StatusReply,
  Stream,
  TxnReply,
  TxnRequest,
  WatchReply,
} from './client.ts';
import { asStoreError, isBreakerOpen, isFull } from './failure.ts';

/** The time limit of one attempt at one member. The client then tries another member by itself. */
const ATTEMPT_MS = 2_000;
/** No attempt begins later than this after the first one: the caller has given up by then. */
const CALL_MS = 4_500;
/** By default etcd accepts 128 operations in a transaction, nested operations included. */
const READS_MAX = 40;
const WRITES_MAX = 64;
/** How many keys are read at once. With the longest names and notes they fit into 4 MB. */
export const PAGE_KEYS = 500;
/** Answers with more keys do not share a transaction, because its whole answer must fit too. */
const SHORT_KEYS = 16;

/** The answer to a keep-alive. It counts once a transaction confirms it (`Lease.confirm`). */
export interface Alive {
  /** When the keep-alive was sent, or a little earlier. */
  readonly sent: Instant;
  /** 0: there is no such lease. */
  readonly ttlMs: number;
  readonly term: number;
}

export interface Granted extends Alive {
  readonly id: string;
}

export interface TxnResult {
  /** Whether the comparisons were true. */
  readonly succeeded: boolean;
  /** The cluster's revision at which the answer was read. */
  readonly revision: bigint;
  readonly term: number;
  /** The answers to range requests, in order. */
  readonly ranges: readonly RangeReply[];
  /** When above 1, an earlier attempt whose answer was lost may have taken effect. */
  readonly attempts: number;
}

interface Limits {
  readonly attemptMs?: number | undefined;
  /** Once it aborts, no attempt begins. The result is still awaited: a key may have been made. */
  readonly signal?: AbortSignal | undefined;
}

interface Read extends Limits {
  /** Three at most. */
  readonly ranges: readonly RangeRequest[];
}

export interface Write extends Limits {
  readonly txn: TxnRequest;
  /**
   * Two writes with the same one are never put into the same transaction: the key that is written,
   * or the lock of a new claim. All keys that a transaction creates have the same create revision,
   * so two new claims of one lock would have no order.
   */
  readonly conflict: Buffer;
}

/**
 * The calls of the etcd API. Each has a time limit, because a paused member never answers. Reads and
 * writes are confirmed by a majority. Those of one tick share one transaction.
 */
export class Calls {
  readonly #client: EtcdClient;
  readonly #clock: Clock;
  /** Transactions that only read cost the cluster no write. */
  readonly reads: Batch<Read, TxnResult>;
  readonly writes: Batch<Write, TxnResult>;
  /** Why a call last failed. The client's circuit breaker, once open, does not repeat it. */
  #lastError: unknown = null;

  constructor(client: EtcdClient, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
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
    this.reads = new Batch({
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

  readonly #sendReads: Send<Read, TxnResult> = async (ops) => {
    const success = ops.flatMap(({ ranges }) => ranges.map((range) => ({ request_range: range })));
    const { reply, attempts } = await this.#txn({ compare: [], success, failure: [] }, ops);
    const all = resultOf(reply, reply, attempts);
    return ops.map(({ ranges }) => ({ value: { ...all, ranges: all.ranges.splice(0, ranges.length) } }));
  };

  readonly #sendWrites: Send<Write, TxnResult> = async (ops) => {
    const [only] = ops;
    const alone = ops.length === 1 && only !== undefined;
    const outer: TxnRequest = alone
      ? only.txn
      : { compare: [], success: ops.map(({ txn }) => ({ request_txn: txn })), failure: [] };
    const { reply, attempts } = await this.#txn(outer, ops);
    const replies = alone ? [reply] : reply.responses.map((response) => response.response_txn);
    return replies.map((inner) => ({ value: resultOf(reply, inner, attempts) }));
  };

  async #txn(request: TxnRequest, ops: readonly Limits[]) {
    const attemptMs = Math.min(...ops.map((op) => op.attemptMs ?? ATTEMPT_MS));
    const isWanted = (): boolean => ops.some(({ signal }) => signal?.aborted !== true);
    const attempts = new Attempts('A transaction', this.#clock, attemptMs, isWanted);
    try {
      const reply = (await this.#client.kv.txn(request, attempts.options)) as TxnReply;
      return { reply, attempts: attempts.count };
    } catch (error) {
      throw this.#failureOf(attempts, error);
    }
  }

  /** All keys of a range, in order, page by page. One that is created meanwhile may be missing. */
  async *keys(from: Buffer, end: Buffer, keysOnly: boolean): AsyncIterable<KeyValue> {
    for (let key = from; ; ) {
      const range = { key, range_end: end, limit: PAGE_KEYS, keys_only: keysOnly };
      const { ranges } = await this.reads.add({ ranges: [range] });
      const kvs = ranges[0]?.kvs ?? [];
      yield* kvs;
      const last = kvs.at(-1);
      if (last === undefined || kvs.length < PAGE_KEYS) return;
      key = Buffer.concat([last.key, Buffer.from([0])]);
    }
  }

  async grant(ttlSeconds: number): Promise<Granted> {
    const sent = instant(this.#clock);
    const asked = { TTL: String(ttlSeconds), ID: '0' };
    const { ID, TTL, header } = await this.#run<LeaseReply>('A lease grant', (options) =>
      this.#client.leaseClient.leaseGrant(asked, options),
    );
    return { id: ID, ttlMs: Number(TTL) * 1_000, sent, term: Number(header.raft_term) };
  }

  async revoke(id: string): Promise<void> {
    await this.#run('A lease revocation', (options) =>
      this.#client.leaseClient.leaseRevoke({ ID: id }, options),
    );
  }

  /** How many milliseconds a lease has left; `null` when there is no such lease. */
  async timeToLive(id: string): Promise<number | null> {
    const { TTL } = await this.#run<LeaseReply>('A lease query', (options) =>
      this.#client.leaseClient.leaseTimeToLive({ ID: id, keys: false }, options),
    );
    return Number(TTL) < 0 ? null : Number(TTL) * 1_000;
  }

  /** The state of one member, and not always of the same. */
  async status(): Promise<StatusReply> {
    return await this.#run('A status query', (options) =>
      (this.#client as DiagnosedClient).maintenance.status(options),
    );
  }

  async members(): Promise<readonly Member[]> {
    const { members } = await this.#run<{ members: readonly Member[] }>('A list of the members', (options) =>
      (this.#client as DiagnosedClient).cluster.memberList({}, options),
    );
    return members;
  }

  /**
   * Asks one member, over a stream that ends with the answer: an open stream would keep the process
   * alive. A second attempt belongs to the caller, because it needs a second transaction too: one
   * that was answered before a keep-alive was sent does not confirm it.
   */
  keepAlive(id: string, limitMs: number): Promise<Alive> {
    const sent = instant(this.#clock);
    return new Promise((resolve, reject) => {
      let stream: Stream<{ ID: string }, LeaseReply> | null = null;
      let isOver = false;
      const fail = (cause: unknown): void => {
        if (isOver) return;
        isOver = true;
        timer.cancel();
        stream?.cancel();
        reject(new StoreError('A lease could not be kept alive', { cause, applied: 'unknown' }));
      };
      const timer = this.#clock.startTimer(limitMs, () => fail(new Error('no answer in time')));
      this.#client.leaseClient.leaseKeepAlive().then((opened) => {
        stream = opened as Stream<{ ID: string }, LeaseReply>;
        stream.on('error', fail);
        stream.on('end', () => fail(new Error('the stream ended')));
        stream.on('data', ({ TTL, header }) => {
          isOver = true;
          timer.cancel();
          stream?.end();
          resolve({ sent, ttlMs: Math.max(Number(TTL), 0) * 1_000, term: Number(header.raft_term) });
        });
        if (isOver) stream.cancel();
        else stream.write({ ID: id });
      }, fail);
    });
  }

  async watch(): Promise<Stream<object, WatchReply>> {
    return (await this.#client.watchClient.watch()) as Stream<object, WatchReply>;
  }

  /** Each reply has the type that the client library documents. */
  async #run<Reply>(what: string, send: (options: object) => Promise<unknown>): Promise<Reply> {
    const attempts = new Attempts(what, this.#clock, ATTEMPT_MS);
    try {
      return (await send(attempts.options)) as Reply;
    } catch (error) {
      throw this.#failureOf(attempts, error);
    }
  }

  #failureOf({ what, count }: Attempts, error: unknown): StoreError {
    const isOpen = isBreakerOpen(error);
    const failure = asStoreError(what, error, count, isOpen ? (this.#lastError ?? error) : error);
    // A definite refusal does not count for the breaker, except that of a database without space.
    if (!isOpen && (failure.applied !== 'no' || isFull(failure))) this.#lastError = error;
    return failure;
  }
}

/**
 * Counts and bounds the attempts of one call. The client repeats a call by itself and does not say
 * how often. It reads `options.deadline` for every attempt, so the attempts are counted there: an
 * interceptor would cost a tenth of a call. One deadline for all attempts would fail those at
 * healthy members, and the client would count the failures against those members.
 */
class Attempts {
  readonly what: string;
  readonly options: object;
  count = 0;

  /** `isWanted`: asked before every attempt but the first. */
  constructor(what: string, clock: Clock, attemptMs: number, isWanted = (): boolean => true) {
    this.what = what;
    const untilMs = clock.monotonicMs() + CALL_MS;
    let isCounted = false;
    const begin = (): void => {
      // One attempt may read the deadline more than once, always within one tick.
      if (isCounted) return;
      if (clock.monotonicMs() > untilMs)
        throw new StoreError(`${what} took too long`, { applied: 'unknown' });
      if (this.count > 0 && !isWanted())
        throw new StoreError(`${what} is not wanted any more`, { applied: 'unknown' });
      this.count += 1;
      isCounted = true;
      queueMicrotask(() => {
        isCounted = false;
      });
    };
    this.options = {
      get deadline(): number {
        begin();
        return clock.wallMs() + attemptMs;
      },
    };
  }
}

const isLong = ({ limit = 1 }: RangeRequest): boolean => limit > SHORT_KEYS;

const readsLong = (op: RequestOp): boolean => 'request_range' in op && isLong(op.request_range);

function resultOf({ header }: TxnReply, inner: TxnReply | null | undefined, attempts: number) {
  return {
    revision: BigInt(header.revision),
    term: Number(header.raft_term),
    succeeded: inner?.succeeded === true,
    ranges: (inner?.responses ?? []).flatMap(({ response_range }) => response_range ?? []),
    attempts,
  };
}
