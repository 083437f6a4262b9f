/**
 * Locks in PostgreSQL 12 or newer.
 * @packageDocumentation
 */
export type { PostgresPool } from './dial.ts';
export { bindFence, type PostgresFenceOptions } from './fence.ts';
export type { Key } from './key.ts';
export type { PgClient, PgPool } from './pg-wire.ts';
export type { PostgresJs } from './postgres-js-wire.ts';
export type { PostgresJsTransaction, Queryable, QueryRunner } from './queryable.ts';
export {
  lockInTransaction,
  type TransactionLockOptions,
  type TransactionLockWait,
  tryLockInTransaction,
} from './transaction-lock.ts';
