/**
 * Locks in MySQL 8 and in MariaDB 10.6 or newer.
 * @packageDocumentation
 */

export type { MysqlPool } from './connection-factory.ts';
export { type MysqlStoreOptions, mysqlStore } from './mysql-server.ts';
