import type { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Cluster } from 'ioredis';
import { afterEach, describe, expect, it } from 'vitest';
import { createLocks, type Locks, openLocks } from '../../src/index.ts';
import { slotOf, tagOf } from '../../src/stores/redis/cluster/slots.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { HOSTILE } from '../../src/testing/cases/hostile-names.ts';
import { freePorts } from '../../src/torture/servers/ports.ts';
import { openClusterClient } from '../support/clients/cluster-clients.ts';
import { LIBRARIES, PREVIOUS_LIBRARIES } from '../support/clients/redis-clients.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { closeAndExit, EXITED_AT_ONCE, outputOf } from '../support/process/close-and-exit.ts';
import { eventually, later, shortest } from '../support/waiting/eventually.ts';
import { measureHandoff } from '../support/waiting/handoff.ts';
import { startClusterStage } from './support/cluster-stage.ts';
import { expectSharedListeners } from './support/shared-listeners.ts';

const stage = await useStage(startClusterStage());
afterEach(() => stage.leaveAll());

/** Every key of every master. */
const keys = async (): Promise<string[]> =>
  (await Promise.all([0, 1, 2].map((n) => stage.cluster.admin(n).keys('*')))).flat();

/** Calls so far, over all masters. */
async function callsOf(command: string): Promise<number> {
  let calls = 0;
  for (const n of [0, 1, 2]) {
    const info = await stage.cluster.admin(n).info('commandstats');
    calls += Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(info)?.[1] ?? 0);
  }
  return calls;
}

it('slots are computed as by the servers, for every name and prefix, and every slot has a tag', async () => {
  const prefixes = ['', 'holdfast:', '{app}:', 'a{', '}', '{}', 'x{y}z'];
  for (const name of HOSTILE) {
    for (const prefix of prefixes) expect(slotOf(prefix + name)).toBe(await stage.slotOf(prefix + name));
  }
  for (let slot = 0; slot < 16_384; slot += 1) expect(slotOf(`{${tagOf(slot)}}rest`)).toBe(slot);
});

it.each(['holdfast:', '', 'a{', '{app}:'])(
  'with prefix %j, all keys of a lock are in the slot of its plain key',
  async (prefix) => {
    const locks = await stage.locks('ioredis', { prefix });
    for (const name of ['plain', '{a}b', 'a}b', '}{', 'a{}b', '{', 'a{b}{c}']) {
      const { read } = locks.readWriteLock(`${name} keys`);
      const hold = await read.acquire({ metadata: { a: 1 } });
      const slot = await stage.slotOf(`${prefix}${name} keys`);
      const own = (await keys()).filter((key) => key.includes(`${name} keys`));
      // The plain key, the queue and the info.
      expect(own).toHaveLength(3);
      for (const key of own) expect(await stage.slotOf(key)).toBe(slot);
      const listed: string[] = [];
      for await (const view of locks.list(name)) listed.push(view.name);
      expect(listed).toContain(`${name} keys`);
      await hold.release();
    }
  },
);

it('each slot has a counter of its own', async () => {
  const locks = await stage.locks('ioredis', { prefix: 'counted:' });
  for (const name of ['one', 'two', '{one}', 'three']) await (await locks.mutex(name).acquire()).release();
  const counters = (await keys()).filter((key) => key.endsWith('counted:\u0001shard'));
  const slots = new Set(['one', 'two', '{one}', 'three'].map((name) => slotOf(`counted:${name}`)));
  expect(counters).toHaveLength(slots.size);
});

describe.each([...LIBRARIES, ...PREVIOUS_LIBRARIES])('under %s', (library) => {
  it('acquires, waits, hands off, counts, lists and evicts', async () => {
    const [a, b] = [await stage.locks(library), await stage.locks(library)];
    for (const name of [`smoke ${library} {x}`, `smoke ${library} y`, `smoke ${library} z`]) {
      const handoffMs = async (): Promise<number> => {
        const hold = await a.mutex(name).acquire();
        expect(await b.mutex(name).tryAcquire()).toBeNull();
        const { tookMs, next } = await measureHandoff(a, b, name, hold);
        expect(await a.evict(name, { id: next.id })).toBe(true);
        return tookMs;
      };
      expect(await shortest(400, handoffMs)).toBeLessThan(400);
    }
    const permits = await Promise.all(
      [1, 2].map(() => a.semaphore(`${library} s`, { permits: 2 }).acquire()),
    );
    expect(await b.semaphore(`${library} s`, { permits: 2 }).tryAcquire()).toBeNull();
    const listed = [];
    for await (const view of b.list(`${library} `)) listed.push(view.name);
    expect(listed).toEqual([`${library} s`]);
    await Promise.all(permits.map((permit) => permit.release()));
  });
});

it('several locks of different slots are acquired in order, and released when one is not free', async () => {
  const [a, b] = [await stage.locks('ioredis'), await stage.locks('node-redis')];
  const names = ['all 3', 'all 1', 'all 2', '{all}4'];
  expect(new Set(names.map((name) => slotOf(`holdfast:${name}`))).size).toBe(4);
  const hold = await a.all(names).acquire();
  expect(hold.names).toEqual(['all 1', 'all 2', 'all 3', '{all}4']);
  for (const name of names) expect(await b.mutex(name).tryAcquire()).toBeNull();
  await hold.release();
  const one = await b.mutex('all 3').acquire();
  expect(await a.all(names).tryAcquire()).toBeNull();
  for (const name of ['all 1', 'all 2', '{all}4'])
    await (await b.mutex(name).acquire({ waitMs: 0 })).release();
  await one.release();
});

it('several locks of one slot are acquired in one call and released in one', async () => {
  const locks = await stage.locks('ioredis');
  await (await locks.mutex('{one}').acquire()).release();
  const before = await callsOf('evalsha');
  const hold = await locks.all(['{one} 1', '{one} 2', '{one} 3']).acquire();
  expect((await callsOf('evalsha')) - before).toBe(1);
  await hold.release();
  expect((await callsOf('evalsha')) - before).toBe(2);
});

it('two programs that acquire the same locks in different orders do not deadlock', async () => {
  const [a, b] = [await stage.locks('ioredis'), await stage.locks('ioredis')];
  let turns = 0;
  const take = async (locks: typeof a, names: string[]): Promise<void> => {
    for (let n = 0; n < 20; n += 1) {
      await locks.all(names).run(() => {
        turns += 1;
      });
    }
  };
  await Promise.all([take(a, ['deadly 1', 'deadly 2']), take(b, ['deadly 2', 'deadly 1'])]);
  expect(turns).toBe(40);
});

it('the requests of one tick travel as one call for each slot', async () => {
  const locks = await stage.locks('ioredis');
  await locks.mutex('{batch}').run(() => {});
  const before = await callsOf('evalsha');
  const holds = await Promise.all(
    Array.from({ length: 60 }, (_, n) => locks.mutex(`{batch} ${n}`).acquire()),
  );
  // Two calls, so that the server works on one while the reply to the other is read.
  expect((await callsOf('evalsha')) - before).toBeLessThanOrEqual(2);
  await Promise.all(holds.map((hold) => hold.release()));
});

it('the key prefix of a Cluster client comes before ours', async () => {
  const client = new Cluster([...stage.cluster.addresses], { keyPrefix: 'app:' });
  const locks = createLocks(redisStore(client, { prefix: 'locks:' }));
  const hold = await locks.mutex('seen').acquire();
  expect(await keys()).toContain('app:locks:seen');
  await hold.release();
  await locks.close();
  client.disconnect();
});

it.each(LIBRARIES)(
  'under %s, every claim settles and the process keeps running when the owner closes the client',
  async (library) => {
    const script = fileURLToPath(new URL('./support/close-client-program.ts', import.meta.url));
    const addresses = JSON.stringify(stage.cluster.addresses);
    expect(await outputOf(script, [library, addresses])).toBe('told of 24\n');
  },
  60_000,
);

it('a key prefix in redisOptions is refused: it would be added to every key twice', async () => {
  const client = new Cluster([...stage.cluster.addresses], {
    lazyConnect: true,
    redisOptions: { keyPrefix: 'app:' },
  });
  expect(() => redisStore(client)).toThrow(expect.objectContaining({ code: 'UNSUPPORTED' }));
  client.disconnect();
});

it('closing the store ends its subscribers, and not the client of the user', async () => {
  const connections = async (): Promise<number> => {
    const lists = await Promise.all(
      [0, 1, 2].map((n) => stage.cluster.admin(n).call('CLIENT', 'LIST', 'TYPE', 'pubsub')),
    );
    return lists
      .join('')
      .split('\n')
      .filter((line) => line !== '').length;
  };
  await eventually('nobody listens yet', async () => (await connections()) === 0);
  const client = new Cluster([...stage.cluster.addresses]);
  const locks = createLocks(redisStore(client));
  const other = await stage.locks('ioredis');
  const hold = await other.mutex('left').acquire();
  const pending = later(locks.mutex('left').acquire());
  await eventually('it listens', async () => (await connections()) > 0);
  await hold.release();
  await (await pending).release();
  await locks.close();
  await eventually('nobody listens', async () => (await connections()) === 0);
  expect(await client.set('still', 'mine')).toBe('OK');
  client.disconnect();
});

it.each([...LIBRARIES, ...PREVIOUS_LIBRARIES])(
  'stores over one Cluster client share their listeners, and leave none, under %s',
  async (library) => {
    const { client, close } = await openClusterClient(library, stage.cluster);
    const { nodes, nodeByAddress } = client as {
      nodes?(role: 'all'): EventEmitter[];
      nodeByAddress?: ReadonlyMap<string, { readonly client?: EventEmitter }>;
    };
    const emitters = (): EventEmitter[] => [
      client as unknown as EventEmitter,
      ...(nodes?.call(client, 'all') ?? []),
      ...[...(nodeByAddress?.values() ?? [])].flatMap((node) => node.client ?? []),
    ];
    await expectSharedListeners(client, emitters);
    close();
  },
);

it('waiters and holds are kept while thousands of other slots are used', async () => {
  const [a, b] = [await stage.locks('ioredis'), await stage.locks('ioredis')];
  const [first, own] = [await a.mutex('kept').acquire(), await b.mutex('kept too').acquire()];
  const pending = later(b.mutex('kept').acquire());
  await eventually('it waits', async () => (await a.inspect('kept')).waiters.length === 1);
  // More slots than stores that are kept.
  for (let n = 0; n < 3_000; n += 300) {
    const names = Array.from({ length: 300 }, (_, m) => `many ${n + m}`);
    await Promise.all(names.map((name) => b.mutex(name).run(() => {})));
  }
  const startedMs = performance.now();
  await first.release();
  const next = await pending;
  // Long before the hold in front would have expired.
  expect(performance.now() - startedMs).toBeLessThan(10_000);
  expect(await next.release()).toBe(true);
  await own.extend();
  expect(await own.release()).toBe(true);
});

/** The time, from now on, after which the last key whose name contains this text is gone. */
async function lastKeyMs(part: string): Promise<number> {
  const lives: number[] = [];
  for (const node of [0, 1, 2].map((n) => stage.cluster.admin(n))) {
    for (const key of await node.keys('*')) if (key.includes(part)) lives.push(await node.pttl(key));
  }
  // A key that has expired since it was listed has -2.
  expect(lives.filter((ms) => ms === -1)).toEqual([]);
  return Math.max(0, ...lives);
}

it('helper keys of rateLimit and once are gone within a minute after their window', async () => {
  const locks = await stage.locks('ioredis');
  const windowMs = 3_000;
  const limit = locks.rateLimit('leftover-limit', { permits: 2, perMs: windowMs });
  // The third one waits for the window of the first.
  for (let n = 0; n < 3; n += 1) await limit.take(1, { waitMs: 10_000 });
  const limitMs = await lastKeyMs('leftover-limit');
  expect(limitMs).toBeGreaterThan(0);
  expect(limitMs).toBeLessThanOrEqual(windowMs + 60_000);
  const rememberMs = 5_000;
  const job = (): Promise<unknown> => locks.once('leftover-job', async () => 'done', { rememberMs });
  await Promise.all([job(), job(), job()]);
  expect(await lastKeyMs('leftover-job')).toBeLessThanOrEqual(rememberMs + 60_000);
});

it('works with the rights that the documentation lists', async () => {
  const page = readFileSync(fileURLToPath(new URL('../../docs/stores/redis.md', import.meta.url)), 'utf8');
  const lines = page.match(/^ACL SETUSER .*$/gm) ?? [];
  expect(lines).toHaveLength(2);
  for (const words of lines.map((line) => line.split(/\s+/) as [string, ...string[]]))
    await Promise.all([0, 1, 2, 3, 4, 5].map((n) => stage.cluster.admin(n).call(...words)));
  const redisOptions = { username: 'locks', password: 'choose-a-password' };
  const clients = [1, 2].map(() => new Cluster([...stage.cluster.addresses], { redisOptions }));
  for (const client of clients) client.on('error', () => {});
  const [a, b] = clients.map((client) => createLocks(redisStore(client, { waitReplicas: 1 }))) as [
    Locks,
    Locks,
  ];
  const handoffMs = async (): Promise<number> => {
    const hold = await a.mutex('least {x}').acquire({ metadata: { a: 1 } });
    const { tookMs, next } = await measureHandoff(a, b, 'least {x}', hold);
    const listed = [];
    for await (const view of b.list('least')) listed.push(view.name);
    expect(listed).toEqual(['least {x}']);
    const pings = await callsOf('ping');
    await next.release();
    // A PING is sent before the release of a claim that has waited. A heartbeat may come besides.
    expect((await callsOf('ping')) - pings).toBeGreaterThanOrEqual(1);
    return tookMs;
  };
  expect(await shortest(400, handoffMs)).toBeLessThan(400);
  await Promise.all([a.close(), b.close()]);
  for (const client of clients) client.disconnect();
});

describe('opened from a URL', () => {
  it('works, and closing the locks closes the client', async () => {
    const connections = async (): Promise<number> => {
      const lists = await Promise.all([0, 1, 2].map((n) => stage.cluster.admin(n).call('CLIENT', 'LIST')));
      return lists.join('').split('\n').length;
    };
    const before = await connections();
    const locks = await openLocks(stage.cluster.url);
    const holds = await Promise.all(['u1', 'u2', 'u3', 'u4'].map((name) => locks.mutex(name).acquire()));
    for (const hold of holds) expect(await hold.release()).toBe(true);
    await locks.close();
    await eventually('they are gone', async () => (await connections()) <= before);
  });

  it('a process that closes its locks continues, and exits by itself', async () => {
    expect(await closeAndExit(stage.cluster.url)).toBe(EXITED_AT_ONCE);
  });

  it.each(['redis+cluster://', 'redis+cluster://a,,b', 'redis+cluster://a,a', 'redis+cluster://a?b'])(
    'refuses %s',
    async (url) => {
      await expect(openLocks(url)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    },
  );

  it('a Cluster that cannot be reached is a StoreError in time', async () => {
    const [port] = await freePorts(1);
    const locks = await openLocks(`redis+cluster://127.0.0.1:${port}`, { connect: false });
    await expect(locks.mutex('x').acquire({ waitMs: 500 })).rejects.toMatchObject({ code: 'STORE' });
    await locks.close();
  });
});
