/**
 * Locks in PostgreSQL 12 or newer.
 * @packageDocumentation
 */

export { type PostgresAdvisoryStoreOptions, postgresAdvisoryStore } from './advisory/advisory-store.ts';
export type { PostgresPool } from './connection-factory.ts';
export { bindFence, type PostgresFenceOptions } from './fence.ts';
export type { Key } from './key.ts';
export { type PostgresLeaseOptions, postgresLeaseStore } from './lease-server.ts';
export type { PgClient, PgPool } from './pg-driver.ts';
export type { PostgresJs } from './postgres-js-driver.ts';
export type { PostgresJsTransaction, Queryable, QueryRunner } from './queryable.ts';
export {
  lockInTransaction,
  type TransactionLockOptions,
  type TransactionLockWait,
  tryLockInTransaction,
} from './transaction-lock.ts';
