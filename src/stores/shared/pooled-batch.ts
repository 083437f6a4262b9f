import { StoreError } from '../../errors.ts';
import { Batch } from './batch.ts';
import type { BatchOptions } from './batch-options.ts';
import type { ConnectionPool, PooledConnection } from './connection-pool.ts';

/** An operation on one lock. Operations share a call. */
interface Operation {
  readonly name: string;
}

/** A statement that shares its call with no operation. */
interface Single {
  readonly text: string;
}

/**
 * `one`: one operation has failed, and the others were undone with it. `again`: nothing was done, and
 * the next attempt may succeed.
 */
export type FailureKind = 'one' | 'again' | null;

export interface PooledBatchOptions<Request, Result>
  extends Pick<BatchOptions<Request, Result>, 'clock' | 'send'> {
  /** The product, for error texts. */
  readonly label: string;
  readonly pool: Pick<ConnectionPool<PooledConnection>, 'hasFree' | 'whenFree'>;
  failureOf(error: unknown): Error;
  kindOf(error: unknown): FailureKind;
  /** How often an operation is sent again after a failure of the kind `again`. */
  readonly retriesMax: number;
}

/** The most operations in a call: their rows may stay locked until the call has committed. */
const ITEMS_MAX = 128;

/**
 * The only queue between a store and its server: a connection that becomes free takes the next call
 * from the queue. The operations of a call are sorted by name, so that two calls cannot deadlock.
 */
export function pooledBatch<Request extends Operation | Single, Result>(
  options: PooledBatchOptions<Request, Result>,
): Batch<Request, Result> {
  const { clock, label, pool, send, failureOf, kindOf, retriesMax } = options;
  return new Batch<Request, Result>({
    clock,
    itemsMax: ITEMS_MAX,
    callsMax: Number.POSITIVE_INFINITY,
    isReady: () => pool.hasFree,
    whenReady: (callback) => pool.whenFree(callback),
    isAlone: isSingle,
    orderBy: lockOf,
    send,
    onFailure(error, { together, tries }) {
      const kind = kindOf(error);
      if (kind === 'one' && together > 1) return 'alone';
      return kind === 'again' && tries <= retriesMax ? { againMs: 0 } : 'fail';
    },
    errors: {
      notSent: () => new StoreError(`${label}: not sent within the time limit`, { applied: 'no' }),
      noAnswer: () => new StoreError(`${label} did not answer within the time limit`, { applied: 'unknown' }),
      failed: failureOf,
    },
  });
}

export function isSingle<Request extends Operation | Single>(
  request: Request,
): request is Extract<Request, Single> {
  return 'text' in request;
}

function lockOf(request: Operation | Single): string {
  return 'text' in request ? '' : request.name;
}
