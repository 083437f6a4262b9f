/**
 * Locks in MySQL 8 and in MariaDB 10.6 or newer.
 * @packageDocumentation
 */
import { checkKeys } from '../../checks.ts';
import type { Store } from '../../store/store.ts';
import { connectorOf, type MysqlPool } from './connector.ts';
import { leaseStore, type MysqlStoreOptions } from './mysql-server.ts';

export type { MysqlPool } from './connector.ts';
export type { MysqlStoreOptions } from './mysql-server.ts';

/**
 * Leases in tables of their own, in MySQL 8 or in MariaDB 10.6 or newer. The pool stays yours: its
 * connections are neither used nor closed. The store opens up to two of its own, with the same settings;
 * `close` ends them.
 *
 * Throws `InvalidArgumentError` for a pool or an option that cannot be used. The first command makes the
 * tables unless told not to, and rejects with an `UnsupportedError` when that is not allowed.
 */
export function mysqlStore(pool: MysqlPool, options: MysqlStoreOptions = {}): Store {
  checkKeys(options, ['prefix', 'migrate', 'connections', 'queueMax', 'clock']);
  return leaseStore(connectorOf(pool), options);
}
