/**
 * Locks in PostgreSQL 12 or newer.
 * @packageDocumentation
 */
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { lineMaxOf } from '../line-max.ts';
import { dialOf, type PostgresPool } from './dial.ts';
import { type PostgresLeaseOptions, PostgresLeaseStore } from './lease-store.ts';

export { type PostgresAdvisoryStoreOptions, postgresAdvisoryStore } from './advisory/advisory-store.ts';
export type { PostgresPool } from './dial.ts';
export { bindFence, type PostgresFenceOptions } from './fence.ts';
export type { Key } from './key.ts';
export type { PostgresLeaseOptions } from './lease-store.ts';
export type { PgClient, PgPool } from './pg-wire.ts';
export type { PostgresJs } from './postgres-js-wire.ts';
export type { PostgresJsTransaction, Queryable, QueryRunner } from './queryable.ts';
export {
  lockInTransaction,
  type TransactionLockOptions,
  type TransactionLockWait,
  tryLockInTransaction,
} from './transaction-lock.ts';

/**
 * Leases in tables of their own, in PostgreSQL 12 or newer. The pool stays yours: its connections are neither used nor closed. The store opens up to two of its own with the
 * same settings for its statements, and one that listens once somebody waits; `close` ends them.
 *
 * Throws `InvalidArgumentError` for a pool or an option that cannot be used. The first command makes the tables unless told not to, and rejects with an `UnsupportedError`
 * when that is not allowed.
 */
export function postgresLeaseStore(pool: PostgresPool, options: PostgresLeaseOptions = {}): Store {
  const { connections } = options;
  lineMaxOf(options);
  if (connections !== undefined && (!Number.isInteger(connections) || connections < 1 || connections > 16)) {
    throw new InvalidArgumentError('connections', 'must be a whole number from 1 to 16');
  }
  return new PostgresLeaseStore(dialOf(pool), options);
}
