import type { Clock } from '../../clock.ts';
import { ClosedError, StoreError } from '../../errors.ts';
import { type Instant, instant } from '../../store/validity.ts';
import { errorText } from '../../util/error-text.ts';
import type {
  DiagnosedClient,
  EtcdClient,
  LeaseReply,
  Member,
  StatusReply,
  Stream,
  TxnReply,
  TxnRequest,
  WatchReply,
} from './client.ts';

/** The time limit of one attempt at one member. The client then tries another member by itself. */
export const ATTEMPT_MS = 2_000;
/** No attempt begins later than this after the first one: the caller has given up by then. */
const CALL_MS = 4_500;

/** The answer to a keep-alive. It counts once a transaction confirms it (`Lease.confirm`). */
export interface Alive {
  /** When the keep-alive was sent, or a little earlier. */
  readonly sent: Instant;
  /** 0: there is no such lease. */
  readonly ttlMs: number;
  readonly term: number;
}

/** A lease as etcd has granted it. */
export interface Granted extends Alive {
  readonly id: string;
}

/** The calls of the etcd API. Each has a time limit, because a paused member never answers. */
export class Calls {
  readonly #client: EtcdClient;
  readonly #clock: Clock;
  /** Why a call last failed. The client's circuit breaker, once open, does not repeat the reason. */
  #lastError: unknown = null;

  constructor(client: EtcdClient, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  /**
   * `isWanted`: asked before every attempt but the first. A transaction that no caller waits for is
   * not sent again. `attempts`: how often it was sent. An earlier attempt may have taken effect.
   */
  async txn(
    request: TxnRequest,
    attemptMs: number,
    isWanted?: () => boolean,
  ): Promise<{ reply: TxnReply; attempts: number }> {
    const attempts = new Attempts('A transaction', this.#clock, attemptMs, isWanted);
    const reply = await this.#run<TxnReply>(attempts, (options) => this.#client.kv.txn(request, options));
    return { reply, attempts: attempts.count };
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
    return await this.#run('A status query', async (options) => {
      const { maintenance } = this.#client as DiagnosedClient;
      if (maintenance === undefined) throw new Error('the client cannot ask for it');
      return await maintenance.status(options);
    });
  }

  async members(): Promise<readonly Member[]> {
    const { members } = await this.#run<{ members: readonly Member[] }>(
      'A list of the members',
      async (options) => {
        const { cluster } = this.#client as DiagnosedClient;
        if (cluster === undefined) throw new Error('the client cannot ask for it');
        return await cluster.memberList({}, options);
      },
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
  async #run<Reply>(what: string | Attempts, send: (options: object) => Promise<unknown>): Promise<Reply> {
    const attempts = typeof what === 'string' ? new Attempts(what, this.#clock, ATTEMPT_MS) : what;
    try {
      return (await send(attempts.options)) as Reply;
    } catch (error) {
      if (!isBreakerOpen(error)) this.#lastError = error;
      throw asStoreError(error, attempts, this.#lastError ?? error);
    }
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

/** gRPC codes with which a member refuses a request without applying any of it. */
const DEFINITE = new Set([3, 5, 7, 8, 9, 11, 12, 16]);
const RESOURCE_EXHAUSTED = 8;

function asStoreError(error: unknown, { what, count: attempts }: Attempts, cause: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const message = errorText(error);
  if (attempts === 0 && message.includes('client was already closed')) {
    const closed = new ClosedError('The etcd client has been closed');
    return new StoreError(`${what} was not sent: the client has been closed`, {
      cause: closed,
      applied: 'no',
    });
  }
  const code = Number(/\b(\d{1,2}) [A-Z_]+: /.exec(message)?.[1] ?? Number.NaN);
  // The client fails with the same code when an answer is too large for it. The request was applied
  // then.
  const isAnswer = code !== RESOURCE_EXHAUSTED || message.includes('etcdserver: ');
  const isDefinite =
    attempts === 1 ? DEFINITE.has(code) && isAnswer : attempts === 0 && wasNotSent(error, message);
  const applied = isDefinite ? 'no' : 'unknown';
  return new StoreError(`${what} failed at etcd: ${errorText(cause)}`, { cause, applied });
}

/**
 * True when the client never sent the request: the login failed, or the circuit breaker of every
 * member is open. Other errors prove nothing, because a client may not read the deadline for every
 * attempt.
 */
function wasNotSent(error: unknown, message: string): boolean {
  return /authentication (?:failed|is not enabled)/.test(message) || isBreakerOpen(error);
}

function isBreakerOpen(error: unknown): boolean {
  return (error as { isBrokenCircuitError?: unknown } | null)?.isBrokenCircuitError === true;
}

/** The write was refused because its lease had ended. */
export function isLeaseGone(error: unknown): boolean {
  return error instanceof StoreError && error.message.includes('requested lease not found');
}

export function isDenied(error: unknown): boolean {
  return error instanceof StoreError && error.message.includes('permission denied');
}

/** The space quota is used up: etcd refuses every put, but leases, reads and deletions work. */
export function isFull(error: unknown): boolean {
  return error instanceof StoreError && error.message.includes('database space exceeded');
}
