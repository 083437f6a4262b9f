import type { Clock } from '../../clock.ts';
import type { StoreError } from '../../errors.ts';
import { Batch } from './batch.ts';
import type { Answer, CallInfo } from './batch-options.ts';
import type { ConnectionPool, PooledConnection } from './connection-pool.ts';
import type { Statement } from './limited-connection.ts';
import type { Failures } from './server-failure.ts';

/** An operation on one lock. Operations share a call. */
interface Operation {
  readonly name: string;
  /** No caller waits for it, so it does not keep the process alive. */
  readonly isBackground?: boolean;
}

/** A statement that shares its call with no operation. */
export interface SingleStatement extends Statement {
  readonly isBackground?: boolean;
}

export interface PooledBatchOptions<Connection extends PooledConnection, Request, Result> {
  readonly clock: Clock;
  readonly pool: ConnectionPool<Connection>;
  /** Sends the requests of a call over this connection. */
  send(
    connection: Connection,
    requests: readonly Request[],
    call: CallInfo,
  ): Promise<readonly Answer<Result>[]>;
  readonly failures: Failures;
}

/** The most operations in a call: their rows may stay locked until the call has committed. */
const ITEMS_MAX = 128;
/** After a row that was busy or a deadlock, this many tries follow at once, and others after a delay. */
const TRIES_AT_ONCE = 3;
const TRIES_MAX = 60;
const AGAIN_MS = { min: 1, max: 40 };

/**
 * The only queue between a store and its server: a connection that becomes free takes the next call
 * from the queue. The operations of a call are sorted by name, so that two calls cannot deadlock.
 */
export function pooledBatch<
  Connection extends PooledConnection,
  Request extends Operation | SingleStatement,
  Result,
>(options: PooledBatchOptions<Connection, Request, Result>): Batch<Request, Result> {
  const { clock, pool, send, failures } = options;
  const { failureOf, kindOf } = failures;
  return new Batch<Request, Result>({
    clock,
    itemsMax: ITEMS_MAX,
    callsMax: Number.POSITIVE_INFINITY,
    isReady: () => pool.hasFree,
    whenReady: (callback) => pool.whenFree(callback),
    isAlone: (request) => 'text' in request,
    orderBy: (request) => ('text' in request ? '' : request.name),
    async send(requests, call) {
      const connection = pool.take(requests.some(({ isBackground }) => isBackground !== true));
      // The answer may never come, and nothing else can be sent before it.
      call.onAbandoned = () => connection.destroy();
      try {
        return await send(connection, requests, call);
      } catch (error) {
        const kind = kindOf(error);
        if (kind === 'again')
          return requests.map((_, n) => againAnswer(clock, call.triesOf(n), () => failureOf(error)));
        if (kind === 'tables') pool.forgetSchema();
        // The name of the server may lead to another one by now.
        if (kind === 'server') pool.replaceAll();
        throw error;
      } finally {
        pool.giveBack(connection);
      }
    },
    onFailure: (error) => (kindOf(error) === 'one' ? 'alone' : 'fail'),
    errors: {
      notSent: () => failures.notSent('the caller gave up'),
      noAnswer: failures.unanswered,
      failed: failureOf,
    },
  });
}

/** The answer for an operation of which nothing was done, after this many tries. */
export function againAnswer(clock: Clock, tries: number, refusal: () => StoreError): Answer<never> {
  if (tries >= TRIES_MAX) return { error: refusal() };
  if (tries < TRIES_AT_ONCE) return { retryMs: 0 };
  return { retryMs: AGAIN_MS.min + clock.random() * Math.min(AGAIN_MS.max, tries) };
}
