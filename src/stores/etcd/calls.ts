import type { Clock } from '../../clock.ts';
import { ClosedError, StoreError } from '../../errors.ts';
import { type Instant, instant } from '../../hold/validity.ts';
import { errorText } from '../error-text.ts';
import type {
  EtcdClient,
  GrantReply,
  KeepAliveReply,
  Stream,
  TxnReply,
  TxnRequest,
  WatchReply,
} from './client.ts';

/** One try at one member; the client then goes on to another member by itself. */
export const ATTEMPT_MS = 2_000;
/** No try begins later than this after the first: whoever asked has given up by then. */
const CALL_MS = 4_500;

export interface Answer {
  readonly reply: TxnReply;
  /** How often it was sent. After the first time, an earlier one may have had its effect unseen. */
  readonly attempts: number;
}

export interface Granted {
  readonly id: string;
  readonly ttlMs: number;
  readonly sent: Instant;
  readonly term: number;
}

/** The single calls, each with its own time limit: a call to a member that is paused or cut off never ends by itself. */
export class Calls {
  readonly #client: EtcdClient;
  readonly #clock: Clock;
  /** What the client has last failed for. While it asks no member, since all have failed so often, that is why. */
  #lastError: unknown = null;

  constructor(client: EtcdClient, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  async txn(request: TxnRequest, attemptMs: number): Promise<Answer> {
    return await this.#run('A transaction', attemptMs, async (options, count) => {
      const reply = (await this.#client.kv.txn(request, options)) as TxnReply;
      return { reply, attempts: count() };
    });
  }

  async grant(ttlSeconds: number): Promise<Granted> {
    const sent = instant(this.#clock);
    const { ID, TTL, header } = await this.#run('A lease', ATTEMPT_MS, async (options) => {
      const asked = { TTL: String(ttlSeconds), ID: '0' };
      return (await this.#client.leaseClient.leaseGrant(asked, options)) as GrantReply;
    });
    return { id: ID, ttlMs: Number(TTL) * 1_000, sent, term: Number(header.raft_term) };
  }

  async revoke(id: string): Promise<void> {
    await this.#run('Ending a lease', ATTEMPT_MS, async (options) => {
      await this.#client.leaseClient.leaseRevoke({ ID: id }, options);
    });
  }

  /** What is left of a lease and what it was granted for; `null` when there is no such lease. */
  async timeToLive(id: string): Promise<{ leftMs: number; ttlMs: number } | null> {
    const { TTL, grantedTTL } = await this.#run('Asking for a lease', ATTEMPT_MS, async (options) => {
      const asked = { ID: id, keys: false };
      return (await this.#client.leaseClient.leaseTimeToLive(asked, options)) as {
        TTL: string;
        grantedTTL: string;
      };
    });
    return Number(TTL) < 0 ? null : { leftMs: Number(TTL) * 1_000, ttlMs: Number(grantedTTL) * 1_000 };
  }

  async keepAlive(): Promise<Stream<{ ID: string }, KeepAliveReply>> {
    return (await this.#client.leaseClient.leaseKeepAlive()) as Stream<{ ID: string }, KeepAliveReply>;
  }

  async watch(): Promise<Stream<object, WatchReply>> {
    return (await this.#client.watchClient.watch()) as Stream<object, WatchReply>;
  }

  async #run<T>(
    what: string,
    attemptMs: number,
    send: (options: object, count: () => number) => Promise<T>,
  ): Promise<T> {
    const clock = this.#clock;
    const untilMs = clock.monotonicMs() + CALL_MS;
    let attempts = 0;
    let isCounted = false;
    const options = {
      // Read anew for each try. One deadline for all of them would fail the tries at healthy members, and count against those. It is also how tries are counted: the client does
      // not tell, and an interceptor costs a tenth of a call.
      get deadline(): number {
        if (isCounted) return clock.wallMs() + attemptMs;
        if (clock.monotonicMs() > untilMs)
          throw new StoreError(`${what} took too long`, { applied: 'unknown' });
        attempts += 1;
        // One try may read it more than once; the next try comes later.
        isCounted = true;
        queueMicrotask(() => {
          isCounted = false;
        });
        return clock.wallMs() + attemptMs;
      },
    };
    try {
      return await send(options, () => attempts);
    } catch (error) {
      if (!isBreakerOpen(error)) this.#lastError = error;
      throw asStoreError(error, what, attempts, this.#lastError ?? error);
    }
  }
}

/** Answers that mean that the request was looked at and turned down. */
const DEFINITE = new Set([3, 5, 7, 8, 9, 11, 12, 16]);
const TOO_MUCH = 8;

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
  // With that the client also fails when an answer is too big for it: then the request has done its work.
  const isAnswer = code !== TOO_MUCH || message.includes('etcdserver: ');
  const isDefinite =
    attempts === 1 ? DEFINITE.has(code) && isAnswer : attempts === 0 && wasNotSent(error, message);
  const applied = isDefinite ? 'no' : 'unknown';
  return new StoreError(`${what} failed at etcd: ${errorText(cause)}`, { cause, applied });
}

/** The password was refused, or none is wanted, or every member has failed so often that none was asked. Nothing else is taken for it: a client may not count its tries. */
function wasNotSent(error: unknown, message: string): boolean {
  return /authentication (?:failed|is not enabled)/.test(message) || isBreakerOpen(error);
}

function isBreakerOpen(error: unknown): boolean {
  return (error as { isBrokenCircuitError?: unknown } | null)?.isBrokenCircuitError === true;
}

/** The lease of a write had ended, so the write did not happen. */
export function isLeaseGone(error: unknown): boolean {
  return error instanceof StoreError && error.message.includes('requested lease not found');
}

/** Nothing can be written, until somebody has made room. Leases go on, and what is there can be read and removed. */
export function isFull(error: unknown): boolean {
  return error instanceof StoreError && error.message.includes('database space exceeded');
}
