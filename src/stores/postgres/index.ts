/**
 * Locks in PostgreSQL 12 or newer.
 * @packageDocumentation
 */
import { checkKeys } from '../../checks.ts';
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { queueMaxOf } from '../shared/queue-max.ts';
import { connectionFactoryOf, type PostgresPool } from './connection-factory.ts';
import { leaseStore, type PostgresLeaseOptions } from './lease-store.ts';

export { type PostgresAdvisoryStoreOptions, postgresAdvisoryStore } from './advisory/advisory-store.ts';
export type { PostgresPool } from './connection-factory.ts';
export { bindFence, type PostgresFenceOptions } from './fence.ts';
export type { Key } from './key.ts';
export type { PostgresLeaseOptions } from './lease-store.ts';
export type { PgClient, PgPool } from './pg-driver.ts';
export type { PostgresJs } from './postgres-js-driver.ts';
export type { PostgresJsTransaction, Queryable, QueryRunner } from './queryable.ts';
export {
  lockInTransaction,
  type TransactionLockOptions,
  type TransactionLockWait,
  tryLockInTransaction,
} from './transaction-lock.ts';

/**
 * Leases in tables, in PostgreSQL 12 or newer. The store neither uses nor closes the connections of
 * the pool. It opens up to two of its own with the same settings for statements, and one that
 * listens once a claim waits. `close` ends them.
 *
 * Throws `InvalidArgumentError` for a pool or an option that cannot be used. The first command
 * creates the tables, unless `migrate` is false, and rejects with an `UnsupportedError` when this
 * user may not create them.
 */
export function postgresLeaseStore(pool: PostgresPool, options: PostgresLeaseOptions = {}): Store {
  checkKeys(options, ['schema', 'migrate', 'connections', 'queueMax', 'clock']);
  const { connections } = options;
  queueMaxOf(options);
  if (connections !== undefined && (!Number.isInteger(connections) || connections < 1 || connections > 16)) {
    throw new InvalidArgumentError('connections', 'must be a whole number from 1 to 16');
  }
  return leaseStore(connectionFactoryOf(pool), options);
}
