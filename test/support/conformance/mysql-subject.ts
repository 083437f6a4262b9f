import mysql from 'mysql2';
import type { Store } from '../../../src/store/store.ts';
import { type MysqlStoreOptions, mysqlStore } from '../../../src/stores/mysql/index.ts';
import { type MysqlServer, startSharedMysql } from '../servers/mysql.ts';
import { ownDatabase, type Prepare } from './own-database.ts';

/** What the conformance suite needs of MySQL. */
export function mysqlSubject(prepare?: Prepare<MysqlServer>, options: MysqlStoreOptions = {}) {
  const url = ownDatabase(startSharedMysql, prepare);
  return {
    traits: { lifetime: 'lease', ordered: true, counting: true, remembers: true },
    evictions: 'renewal',
    open: async (more?: { queueMax?: number | undefined }): Promise<Store> =>
      mysqlStore(mysql.createPool(url()), { ...options, ...more }),
  } as const;
}
