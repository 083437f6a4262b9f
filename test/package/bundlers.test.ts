import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Backend } from '../../src/torture/backends/backend.ts';
import { startBackend } from '../../src/torture/backends/start-backend.ts';
import { startSharedRedis } from '../../src/torture/servers/redis.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { BUNDLERS, type Bundler, FORMATS, type Format, makeBundles } from '../support/package/bundlers.ts';
import { installPackage } from '../support/package/installed-package.ts';
import { publicEntries } from '../support/package/public-entries.ts';
import { makeScratch, repository, startNode } from '../support/package/staged-package.ts';
import { type MysqlServer, startSharedMysql } from '../support/servers/mysql.ts';
import { type PostgresServer, startSharedPostgres } from '../support/servers/postgres.ts';

const entries = publicEntries();
/** Every entry, one lock in memory, and one in each store whose URL is an argument. */
const PROGRAM = `
${entries.map(({ specifier }, n) => `import * as entry${n} from '${specifier}';`).join('\n')}
const all = [${entries.map((_, n) => `entry${n}`)}];
const { createLocks, memoryStore, openLocks } = entry0;
const lock = async (locks) => {
  const kind = await locks.withLock('bundled', (hold) => typeof hold.fence);
  await locks.close();
  return kind;
};
(async () => {
  const filled = all.filter((each) => Object.keys(each).length > 0);
  const results = [filled.length, await lock(createLocks(memoryStore()))];
  for (const argument of process.argv.slice(2)) {
    const [url, renewal] = argument.split(' ');
    const locked = openLocks(url, { renewal }).then(lock);
    results.push(await locked.catch((error) => error.code + ' ' + error.message));
  }
  console.log(JSON.stringify(results));
  process.exit();
})();`;
const ENTRY_COUNT = entries.length;
/** Bundlers take seconds of processor time, and other test files run at the same time. */
const LIMIT_MS = 300_000;

const installed = installPackage();
const elsewhere = makeScratch();
let redis: Server;
let postgres: PostgresServer;
let mysql: MysqlServer;
let etcd: Backend;
let zookeeper: Backend;
beforeAll(async () => {
  [redis, postgres, mysql, etcd, zookeeper] = await Promise.all([
    startSharedRedis(),
    startSharedPostgres(),
    startSharedMysql(),
    startBackend('etcd'),
    startBackend('zookeeper'),
  ]);
});
afterAll(async () => {
  await Promise.all([redis.stop(), postgres.stop(), mysql.stop()]);
  await Promise.all([etcd[Symbol.asyncDispose](), zookeeper[Symbol.asyncDispose]()]);
  installed[Symbol.dispose]();
  elsewhere[Symbol.dispose]();
});

/** A project with the package and these client libraries. */
function projectWith(name: string, clients: readonly string[]): string {
  const folder = join(installed.project, name);
  const modules = join(folder, 'node_modules');
  mkdirSync(modules, { recursive: true });
  cpSync(join(installed.project, 'node_modules/holdfast'), join(modules, 'holdfast'), { recursive: true });
  for (const client of clients) symlinkSync(join(repository, 'node_modules', client), join(modules, client));
  return folder;
}

async function run(bundle: string, urls: readonly string[] = []): Promise<unknown[]> {
  return JSON.parse(await startNode(dirname(bundle), [bundle, ...urls]));
}

/** Away from every `node_modules`, only what is in the bundle is there. */
function moved(bundle: string): string {
  const folder = join(elsewhere.folder, dirname(bundle).slice(installed.project.length + 1));
  cpSync(dirname(bundle), folder, { recursive: true });
  return join(folder, basename(bundle));
}

const MISSING = {
  redis: 'UNSUPPORTED Redis needs a client library: npm install ioredis (or: npm install redis)',
  postgres: 'UNSUPPORTED PostgreSQL needs a client library: npm install pg (or: npm install postgres)',
  mysql: 'UNSUPPORTED MySQL needs a client library: npm install mysql2',
  etcd: 'UNSUPPORTED etcd needs a client library: npm install etcd3',
  zookeeper: 'UNSUPPORTED ZooKeeper needs a client library: npm install node-zookeeper-client',
};

describe('a bundle of every entry', () => {
  const bare = projectWith('bare', []);
  const full = projectWith('full', ['ioredis', 'pg', 'libsql', 'mysql2', 'etcd3', 'node-zookeeper-client']);
  const others = projectWith('others', ['redis', 'postgres']);
  /** One database each: the bundles run at once, and each of them makes its tables. */
  const urls = async (): Promise<[string, string]> => [redis.url, await postgres.createDatabase()];

  it.concurrent.each(BUNDLERS)(
    '%s: is built without a client library, and names the one to install',
    async (bundler) => {
      const bundles = await makeBundles(bundler, bare, PROGRAM);
      const asked = ['redis://x', 'postgres://x/y?mode=lease', 'mysql://x/y', 'etcd://x', 'zookeeper://x'];
      const expected = [ENTRY_COUNT, 'bigint', ...Object.values(MISSING)];
      for (const format of FORMATS) expect(await run(bundles[format], asked), format).toEqual(expected);
    },
    LIMIT_MS,
  );

  type Standalone = Readonly<Record<keyof typeof MISSING, boolean>>;
  const NOTHING = { redis: false, postgres: false, mysql: false, etcd: false, zookeeper: false };
  const ALL_BUT_ETCD = { redis: true, postgres: true, mysql: true, etcd: false, zookeeper: true };
  /**
   * What runs where there is no `node_modules`. The page on installing says why the others do not.
   */
  const STANDALONE: Record<Bundler, Record<Format, Standalone>> = {
    esbuild: { esm: NOTHING, cjs: ALL_BUT_ETCD },
    webpack: { esm: ALL_BUT_ETCD, cjs: ALL_BUT_ETCD },
    rollup: { esm: { ...NOTHING, postgres: true }, cjs: { ...NOTHING, postgres: true } },
  };
  it.concurrent.each(BUNDLERS)(
    '%s: works with ioredis, pg, libsql, mysql2, etcd3 and node-zookeeper-client, and contains what it can',
    async (bundler) => {
      const bundles = await makeBundles(bundler, full, PROGRAM);
      for (const format of FORMATS) {
        const [redisUrl, postgresUrl] = await urls();
        const mysqlUrl = await mysql.createDatabase();
        const asked = [redisUrl, `${postgresUrl}?mode=lease`, mysqlUrl, etcd.url, zookeeper.url];
        const file = `sqlite:${join(full, `${bundler}-${format}.db`)}`;
        const inThread = [redisUrl, `${postgresUrl}?mode=lease`, file].map((url) => `${url} thread`);
        const all = [...asked, file, ...inThread];
        expect(await run(bundles[format], all), format).toEqual([
          ENTRY_COUNT,
          'bigint',
          ...all.map(() => 'bigint'),
        ]);
        const contained = Object.entries(STANDALONE[bundler][format]).map(([store, isContained]) =>
          isContained ? 'bigint' : MISSING[store as keyof typeof MISSING],
        );
        const alone = await run(moved(bundles[format]), asked);
        expect(alone, `${format} alone`).toEqual([ENTRY_COUNT, 'bigint', ...contained]);
      }
    },
    LIMIT_MS,
  );

  const NODE_REDIS_STANDALONE: Record<Bundler, Record<Format, boolean>> = {
    esbuild: { esm: false, cjs: true },
    webpack: { esm: true, cjs: true },
    rollup: { esm: false, cjs: false },
  };
  it.concurrent.each(BUNDLERS)(
    '%s: works with redis and postgres, and contains what the bundler can take',
    async (bundler) => {
      const bundles = await makeBundles(bundler, others, PROGRAM);
      for (const format of FORMATS) {
        const [redisUrl, postgresUrl] = await urls();
        const asked = [redisUrl, `${postgresUrl}?mode=lease`];
        const results = await run(bundles[format], asked);
        expect(results, format).toEqual([ENTRY_COUNT, 'bigint', 'bigint', 'bigint']);
        expect(await run(moved(bundles[format]), asked), `${format} alone`).toEqual([
          ENTRY_COUNT,
          'bigint',
          NODE_REDIS_STANDALONE[bundler][format] ? 'bigint' : MISSING.redis,
          'bigint',
        ]);
      }
    },
    LIMIT_MS,
  );
});
