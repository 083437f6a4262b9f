/**
 * Locks in PostgreSQL 12 or newer.
 * @packageDocumentation
 */
export type { PostgresPool } from './dial.ts';
export type { PgClient, PgPool } from './pg-wire.ts';
export type { PostgresJs } from './postgres-js-wire.ts';
