import mysql from 'mysql2';
import { afterAll, beforeAll } from 'vitest';
import type { Store } from '../../../src/store/store.ts';
import { type MysqlStoreOptions, mysqlStore } from '../../../src/stores/mysql/index.ts';
import { type MysqlServer, startSharedMysql } from '../servers/mysql.ts';

/** What the conformance suite needs of MySQL. `prepare` gives the URL to connect with. */
export function mysqlSubject(
  prepare: (server: MysqlServer, url: string) => Promise<string> = async (_server, url) => url,
  options: MysqlStoreOptions = {},
) {
  let server: MysqlServer;
  let url: string;
  beforeAll(async () => {
    server = await startSharedMysql();
    url = await prepare(server, await server.createDatabase());
  });
  afterAll(async () => {
    await server.stop();
  });
  return {
    traits: { lifetime: 'lease', ordered: true, counting: true, remembers: true },
    evictions: 'renewal',
    open: async (more?: { queueMax?: number | undefined }): Promise<Store> =>
      mysqlStore(mysql.createPool(url), { ...options, ...more }),
  } as const;
}
