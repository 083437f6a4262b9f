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

/** A lease as etcd has granted it. */
export interface Granted {
  readonly id: string;
  readonly ttlMs: number;
  readonly sent: Instant;
  readonly term: number;
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
    isWanted: () => boolean,
  ): Promise<{ reply: TxnReply; attempts: number }> {
    const attempts = new Attempts('A transaction', this.#clock, attemptMs, isWanted);
    try {
      const reply = (await this.#client.kv.txn(request, attempts.options)) as TxnReply;
      return { reply, attempts: attempts.count };
    } catch (error) {
      throw this.#failureOf(error, attempts);
    }
  }

  async grant(ttlSeconds: number): Promise<Granted> {
    const sent = instant(this.#clock);
    const { ID, TTL, header } = await this.#run('A lease grant', async (options) => {
      const asked = { TTL: String(ttlSeconds), ID: '0' };
      return (await this.#client.leaseClient.leaseGrant(asked, options)) as LeaseReply;
    });
    return { id: ID, ttlMs: Number(TTL) * 1_000, sent, term: Number(header.raft_term) };
  }

  async revoke(id: string): Promise<void> {
    await this.#run('A lease revocation', async (options) => {
      await this.#client.leaseClient.leaseRevoke({ ID: id }, options);
    });
  }

  /** How many milliseconds a lease has left; `null` when there is no such lease. */
  async timeToLive(id: string): Promise<number | null> {
    const { TTL } = await this.#run('A lease query', async (options) => {
      const asked = { ID: id, keys: false };
      return (await this.#client.leaseClient.leaseTimeToLive(asked, options)) as LeaseReply;
    });
    return Number(TTL) < 0 ? null : Number(TTL) * 1_000;
  }

  /** The state of one member, and not always of the same. */
  async status(): Promise<StatusReply> {
    return await this.#run('A status query', async (options) => {
      const { maintenance } = this.#client as DiagnosedClient;
      if (maintenance === undefined) throw new Error('the client cannot ask for it');
      return (await maintenance.status(options)) as StatusReply;
    });
  }

  async members(): Promise<readonly Member[]> {
    return await this.#run('A list of the members', async (options) => {
      const { cluster } = this.#client as DiagnosedClient;
      if (cluster === undefined) throw new Error('the client cannot ask for it');
      return ((await cluster.memberList({}, options)) as { members: readonly Member[] }).members;
    });
  }

  async keepAlive(): Promise<Stream<{ ID: string }, LeaseReply>> {
    return (await this.#client.leaseClient.leaseKeepAlive()) as Stream<{ ID: string }, LeaseReply>;
  }

  async watch(): Promise<Stream<object, WatchReply>> {
    return (await this.#client.watchClient.watch()) as Stream<object, WatchReply>;
  }

  async #run<T>(what: string, send: (options: object) => Promise<T>): Promise<T> {
    const attempts = new Attempts(what, this.#clock, ATTEMPT_MS);
    try {
      return await send(attempts.options);
    } catch (error) {
      throw this.#failureOf(error, attempts);
    }
  }

  #failureOf(error: unknown, { what, count }: Attempts): StoreError {
    if (!isBreakerOpen(error)) this.#lastError = error;
    return asStoreError(error, what, count, this.#lastError ?? error);
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

function asStoreError(error: unknown, what: string, attempts: number, cause: unknown): StoreError {
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
