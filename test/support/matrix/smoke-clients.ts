import { createLocks, type Locks, openLocks, type Store } from 'holdfast';

/** Two Locks with a connection each, as two processes would have them. */
export interface Pair {
  readonly a: Locks;
  readonly b: Locks;
  /** Closes what the stores do not close: the clients that were given to them. */
  close(): Promise<void>;
}

interface Opened {
  readonly store: Store;
  close(): unknown;
}

const WAIT_MS = 60_000;

/** The client libraries. Each is loaded only when it is tried. */
const OPEN: Readonly<Record<string, (url: string) => Promise<Opened>>> = {
  'ioredis 5': async (url) => await overIoredis((await import('ioredis5')) as unknown as Ioredis, url),
  'ioredis 6': async (url) => await overIoredis(await import('ioredis'), url),
  'node-redis 5': async (url) => await overNodeRedis((await import('redis5')) as unknown as NodeRedis, url),
  'node-redis 6': async (url) => await overNodeRedis(await import('redis'), url),
  'Valkey GLIDE': overGlide,
  'pg, leases': async (url) => await overPg(url, 'postgresLeaseStore'),
  'pg, advisory': async (url) => await overPg(url, 'postgresAdvisoryStore'),
  'postgres.js, leases': async (url) => await overPostgresJs(url, 'postgresLeaseStore'),
  'postgres.js, advisory': async (url) => await overPostgresJs(url, 'postgresAdvisoryStore'),
  mysql2: async (url) => {
    const { mysqlStore } = await import('holdfast/mysql');
    const { createPool } = await import('mysql2');
    const pool = createPool(url);
    return { store: mysqlStore(pool), close: () => pool.promise().end() };
  },
};

/** The others are found by `openLocks`. */
export async function openPair(library: string, url: string): Promise<Pair> {
  const open = OPEN[library];
  const options = { waitMs: WAIT_MS };
  if (open === undefined) {
    const [a, b] = [await openLocks(url, options), await openLocks(url, options)];
    return { a, b, close: async () => {} };
  }
  const [one, two] = [await open(url), await open(url)];
  return {
    a: createLocks(one.store, options),
    b: createLocks(two.store, options),
    close: async () => {
      await one.close();
      await two.close();
    },
  };
}

type Ioredis = Pick<typeof import('ioredis'), 'Redis'>;
type NodeRedis = Pick<typeof import('redis'), 'createClient'>;

async function overIoredis(library: Ioredis, url: string): Promise<Opened> {
  const { redisStore } = await import('holdfast/redis');
  const client = new library.Redis(url);
  return { store: redisStore(client), close: () => client.disconnect() };
}

async function overNodeRedis(library: NodeRedis, url: string): Promise<Opened> {
  const { redisStore } = await import('holdfast/redis');
  const client = library.createClient({ url });
  client.on('error', () => {});
  await client.connect();
  return { store: redisStore(client), close: () => client.destroy() };
}

/** What is used of Valkey GLIDE, which is not a dependency of this repository. */
interface Glide {
  readonly GlideClient: {
    createClient(options: object): Promise<import('ioredis').Redis & { close(): void }>;
  };
}

/** The store is expected to refuse it. */
async function overGlide(url: string): Promise<Opened> {
  const { redisStore } = await import('holdfast/redis');
  const library = '@valkey/valkey-glide';
  const { GlideClient } = (await import(library)) as Glide;
  const { hostname: host, port } = new URL(url);
  const client = await GlideClient.createClient({ addresses: [{ host, port: Number(port) }] });
  try {
    return { store: redisStore(client), close: () => client.close() };
  } catch (error) {
    client.close();
    throw error;
  }
}

type PostgresStore = 'postgresLeaseStore' | 'postgresAdvisoryStore';

async function overPg(url: string, kind: PostgresStore): Promise<Opened> {
  const stores = await import('holdfast/postgres');
  const { default: pg } = await import('pg');
  const pool = new pg.Pool({ connectionString: url });
  return { store: stores[kind](pool), close: () => pool.end() };
}

async function overPostgresJs(url: string, kind: PostgresStore): Promise<Opened> {
  const stores = await import('holdfast/postgres');
  const { default: postgres } = await import('postgres');
  const sql = postgres(url);
  return { store: stores[kind](sql), close: () => sql.end() };
}
