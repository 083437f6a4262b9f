import { errorMonitor } from 'node:events';
import { type AddressInfo, createServer, type Server as NetServer } from 'node:net';
import { inspect } from 'node:util';
import { Etcd3 } from 'etcd3';
import { Cluster, Redis } from 'ioredis';
import zookeeper from 'node-zookeeper-client';
import { createClient, createCluster, createSentinel } from 'redis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLocks, type Locks, openLocks, StoreError } from '../../src/index.ts';
import { etcdStore } from '../../src/stores/etcd/index.ts';
import { redisStore, redlockStore } from '../../src/stores/redis/index.ts';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { errorText } from '../../src/util/error-text.ts';

/** No server listens on this port. */
const REFUSED = '127.0.0.1:1';
/** An invalid host name, so that no name server is asked. */
const NAMELESS = `${'a'.repeat(64)}.invalid`;
const PASSWORD = 'open-sesame-17';
const WRONG = 'close-sesame-18';

let redis: Server;
/** A server without TLS. */
let talker: NetServer;
let admin: Redis;
const ends: (() => unknown)[] = [];

beforeAll(async () => {
  redis = await startRedis();
  admin = new Redis(redis.url);
  await admin.config('SET', 'requirepass', PASSWORD);
  talker = createServer((socket) => {
    socket.on('error', () => {});
    socket.end('HTTP/1.1 400 Bad Request\r\n\r\n');
  });
  await new Promise<void>((resolve) => talker.listen(0, '127.0.0.1', resolve));
});

afterAll(async () => {
  await Promise.all(ends.map((end) => end()));
  admin.disconnect();
  talker.close();
  await redis.stop();
});

const ours = (locks: Locks): Locks => {
  ends.push(() => locks.close({ drainMs: 0 }));
  return locks;
};
const byUrl = async (url: string): Promise<Locks> => ours(await openLocks(url, { connect: false }));

interface NodeRedisLike {
  readonly isOpen: boolean;
  on(event: 'error', listener: () => void): unknown;
  connect(): Promise<unknown>;
  destroy(): unknown;
}

/** A client that connects in the background and has an error listener. */
function connecting<C extends NodeRedisLike>(client: C): C {
  client.on('error', () => {});
  client.connect().catch(() => {});
  ends.push(() => client.isOpen && client.destroy());
  return client;
}
const nodeRedis = async (url: string): Promise<Locks> =>
  ours(createLocks(redisStore(connecting(createClient({ url })))));

/** The error of a caller that waits a little. */
const aLittle = (locks: Locks): Promise<unknown> => locks.mutex('a').acquire({ waitMs: 1 });

/** The error of the client is among the causes. */
function causesOf(error: unknown): unknown[] {
  const cause = (error as { cause?: unknown }).cause;
  return cause === undefined ? [] : [cause, ...causesOf(cause)];
}

/** The messages of the clients. */
const CLIENTS_OWN = /ECONNREFUSED|ENOTFOUND|SSL|TLS|EPROTO|WRONGPASS|NOAUTH|sentinels/i;

async function expectNamed(make: () => Promise<Locks>, cause: RegExp, ask = aLittle): Promise<void> {
  const error = (await ask(await make()).catch((reason: unknown) => reason)) as StoreError;
  expect(error).toBeInstanceOf(StoreError);
  expect(error.message).toMatch(cause);
  expect(error.applied).toBe('no');
  const said = causesOf(error).filter((each) => each instanceof Error && CLIENTS_OWN.test(errorText(each)));
  expect(said).not.toEqual([]);
  expect(inspect(error, { depth: 20, showHidden: true })).not.toMatch(/sesame/);
}

describe('a store that cannot be reached reports the reason', () => {
  // Each waits for about a second, all at once.
  it('for one Redis server, with every client', async () => {
    const tls = `rediss://127.0.0.1:${(talker.address() as AddressInfo).port}`;
    const hidden = redis.url.replace('//', `//:${WRONG}@`);
    const checks = [byUrl, nodeRedis].flatMap((open) => [
      expectNamed(() => open(`redis://${REFUSED}`), /connect ECONNREFUSED 127\.0\.0\.1:1/),
      expectNamed(() => open(`redis://${NAMELESS}`), /ENOTFOUND/),
      expectNamed(() => open(tls), /SSL|TLS|EPROTO/i),
      expectNamed(() => open(hidden), /WRONGPASS/),
      expectNamed(() => open(redis.url), /NOAUTH/),
    ]);
    await Promise.all(checks);
  });

  it('for the other topologies of Redis', async () => {
    const { port } = redis;
    const cluster = async (url: string): Promise<Locks> =>
      ours(createLocks(redisStore(connecting(createCluster({ rootNodes: [{ url }] })))));
    const ioCluster = async (options: object): Promise<Locks> => {
      const client = new Cluster([{ host: '127.0.0.1', port }], { lazyConnect: true, ...options });
      client.on('error', () => {});
      ends.push(() => client.disconnect());
      return ours(createLocks(redisStore(client)));
    };
    const sentinel = async (): Promise<Locks> => {
      const sentinelRootNodes = [{ host: '127.0.0.1', port: 1 }];
      const client = connecting(createSentinel({ name: 'main', sentinelRootNodes }));
      return ours(createLocks(redisStore(client)));
    };
    await Promise.all([
      expectNamed(() => cluster(`redis://${REFUSED}`), /ECONNREFUSED/),
      expectNamed(() => cluster(redis.url.replace('//', `//:${WRONG}@`)), /WRONGPASS/),
      expectNamed(() => byUrl(`redis+cluster://${NAMELESS}`), /ENOTFOUND/),
      expectNamed(() => ioCluster({ redisOptions: { password: WRONG } }), /WRONGPASS/),
      expectNamed(() => byUrl(`redis+sentinel://${REFUSED}/main`), /sentinels are unreachable/),
      expectNamed(sentinel, /ECONNREFUSED/),
      // Its nodes have as long to answer as the caller waits.
      expectNamed(
        () => byUrl(`redlock://${REFUSED},127.0.0.1:2,127.0.0.1:3`),
        /127\.0\.0\.1:3 failed \(connect ECONNREFUSED/,
        (locks) => locks.mutex('a').tryAcquire(),
      ),
    ]);
  });

  it('for PostgreSQL, etcd and ZooKeeper', async () => {
    const client = new Etcd3({ hosts: REFUSED });
    const etcd = createLocks(etcdStore(client));
    // Its client soon stops to connect, and then reports only that.
    for (let asked = 0; asked < 10; asked += 1)
      await etcd
        .mutex('a')
        .tryAcquire()
        .catch(() => {});
    await Promise.all([
      expectNamed(async () => etcd, /connect ECONNREFUSED/),
      expectNamed(() => byUrl(`postgres://u:${WRONG}@${REFUSED}/x`), /connect ECONNREFUSED/),
      expectNamed(() => byUrl(`postgres://u:${WRONG}@${NAMELESS}/x?mode=advisory`), /ENOTFOUND/),
      expectNamed(() => byUrl(`mysql://u:${WRONG}@${REFUSED}/x`), /connect ECONNREFUSED/),
      expectNamed(() => byUrl(`zookeeper://${REFUSED}`), /connect ECONNREFUSED/),
      expectNamed(() => byUrl(`zookeeper://${NAMELESS}`), /ENOTFOUND/),
    ]);
    client.close();
    // A closed client is not asked again.
    const closed = new Etcd3({ hosts: REFUSED });
    closed.close();
    await expect(etcdStore(closed).release({ name: 'a', id: 'me/1' })).rejects.toMatchObject({
      cause: { code: 'CLOSED' },
    });
  });

  it('also when listing, and not as a time limit', async () => {
    const clock = virtualClock();
    const client = new Redis(`redis://${REFUSED}`);
    const refused = new Promise((resolve) => client.on('error', resolve));
    ends.push(() => client.disconnect());
    const listing = redisStore(client, { clock }).list('')[Symbol.asyncIterator]().next();
    const failed = expect(listing).rejects.toThrow(/ECONNREFUSED/);
    await refused;
    await clock.advance(5_000);
    await failed;
  });

  it('also where one host has several addresses and none of them answers', () => {
    const parts = ['connect ECONNREFUSED ::1:1', 'connect ECONNREFUSED 127.0.0.1:1'];
    const both = new AggregateError(parts.map((text) => new Error(text)));
    expect(errorText(both)).toBe(parts.join(', '));
    expect(errorText(Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' }))).toBe('ECONNREFUSED');
  });

  it('leaves no listener on the client', async () => {
    const client = new Redis(redis.url, { password: PASSWORD });
    ends.push(() => client.disconnect());
    await client.ping();
    const before = ['ready', 'close', errorMonitor].map((event) => client.listenerCount(event));
    const [one, two] = [createLocks(redisStore(client)), createLocks(redisStore(client))];
    for (const locks of [one, two]) await locks.withLock('a', () => 7);
    expect(client.listenerCount(errorMonitor)).toBe(1);
    for (const locks of [one, two]) await locks.close();
    expect(['ready', 'close', errorMonitor].map((event) => client.listenerCount(event))).toEqual(before);
  });
});

/** Less than the five seconds of a silent store, and as much as a busy machine may need. */
async function expectQuick(work: () => Promise<unknown>): Promise<void> {
  const startedMs = performance.now();
  await work();
  expect(performance.now() - startedMs).toBeLessThan(4_500);
}

describe('a client that the user has closed', () => {
  const io = (): Redis => new Redis(redis.url, { password: PASSWORD });
  const node = () => connecting(createClient({ url: redis.url, password: PASSWORD }));
  const kinds = {
    ioredis: () => {
      const client = io();
      return { store: redisStore(client), end: () => client.disconnect() };
    },
    'node-redis': () => {
      const client = node();
      return { store: redisStore(client), end: () => client.destroy() };
    },
    Redlock: () => {
      const client = io();
      return { store: redlockStore([client]), end: () => client.disconnect() };
    },
  };
  it.each(Object.entries(kinds))('does not delay the end of a program: %s', async (name, make) => {
    const { store, end } = make();
    const locks = createLocks(store);
    const failures: unknown[] = [];
    locks.on('releaseFailed', ({ error }) => failures.push(error));
    await locks.mutex(`held ${name}`).acquire();
    const waiting = locks
      .mutex(`held ${name}`)
      .acquire()
      .catch(() => 'refused');
    end();
    await expectQuick(() => locks.close({ drainMs: 0 }));
    expect(await waiting).toBe('refused');
    expect(failures).toMatchObject([{ applied: expect.any(String), cause: { code: 'CLOSED' } }]);
  });
});

describe('a refused password', () => {
  for (const open of [byUrl, nodeRedis]) {
    it(`rejects one try at once, and is retried during a wait (${open.name})`, async () => {
      const wrong = `redis://:${WRONG}@127.0.0.1:${redis.port}`;
      const locks = await open(wrong);
      let waitedMs = 0;
      locks.on('refused', (event) => {
        waitedMs = event.waitedMs;
      });
      await expect(locks.mutex('a').tryAcquire()).rejects.toThrow(/WRONGPASS/);
      // Less than the five seconds of a silent server.
      expect(waitedMs).toBeLessThan(4_500);
      const waiting = locks.mutex('b').acquire({ waitMs: 30_000 });
      try {
        await admin.config('SET', 'requirepass', WRONG);
        await (await waiting).release();
      } finally {
        await admin.config('SET', 'requirepass', PASSWORD);
      }
    });
  }
});

describe('a ZooKeeper client that the user closes before it is connected', () => {
  it.each([
    ['is refused', async () => 1],
    ['has no answer', async () => (await silentServer()).port],
  ])('fails what waits for it at once, when it %s', async (_how, port) => {
    const client = zookeeper.createClient(`127.0.0.1:${await port()}`);
    const store = zookeeperStore(client);
    ends.push(() => store.close());
    client.connect();
    const request = { name: 'a', id: 'me/1', ttlMs: 30_000, wait: true, note: '', fenceAbove: 0n } as const;
    const claimed = store.claim({ ...request, mode: { kind: 'exclusive' } }).catch((error: unknown) => error);
    await new Promise(setImmediate);
    try {
      client.close();
    } catch {
      // It has no connection yet over which to close its session.
    }
    const late = new Promise((resolve) => setTimeout(resolve, 3_000, 'late').unref());
    expect(await Promise.race([claimed, late])).toMatchObject({
      code: 'STORE',
      applied: 'no',
      message: 'The client has been closed',
    });
    // Later calls neither wait nor are retried.
    await expect(store.release({ name: 'b', id: 'me/2' })).rejects.toMatchObject({
      cause: { code: 'CLOSED' },
    });
  });
});

async function silentServer(): Promise<AddressInfo> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.resume();
    ends.push(() => socket.destroy());
  });
  ends.push(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server.address() as AddressInfo;
}
