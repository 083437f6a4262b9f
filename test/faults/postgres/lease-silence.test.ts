import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { LeaseStage, request } from '../../postgres/support/lease-stage.ts';
import { expectLossInTime, lostAt } from '../../support/faults/silent-link.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';
import { renewed } from '../../support/waiting/renewed.ts';

const LIBRARIES = ['pg.Pool', 'postgres.js'] as const;
let stage: LeaseStage;
const proxies: FaultProxy[] = [];
beforeAll(async () => {
  stage = await LeaseStage.start();
});
afterAll(async () => {
  for (const proxy of proxies) proxy.pass();
  await stage?.[Symbol.asyncDispose]();
  for (const proxy of proxies) await proxy.stop();
});

/** Each test has a link of its own, because the tests run at the same time. */
async function startLink(): Promise<{ proxy: FaultProxy; url: string }> {
  const proxy = await startFaultProxy(stage.server.port);
  proxies.push(proxy);
  return { proxy, url: stage.url.replace(`:${stage.server.port}/`, `:${proxy.port}/`) };
}

describe.concurrent.each(LIBRARIES)('a link that drops every packet, under %s', (library) => {
  it('rows 41 and 42: the holder is notified before another can hold', async () => {
    const { proxy, url } = await startLink();
    const cutOff = stage.locks({ library, url, ttlMs: 1_500 });
    const others = stage.locks({ library });
    await expectLossInTime({ proxy, cutOff, others, label: library });
  });

  it('row 42: one way only: what was sent may have arrived, and is taken back', async () => {
    const { proxy, url } = await startLink();
    const name = `one-way-${library}`;
    const locks = stage.locks({ library, url });
    await (await locks.mutex('warm').acquire()).release();
    proxy.drop('toClient');
    await expect(locks.mutex(name).acquire({ waitMs: 600 })).rejects.toMatchObject({ code: 'STORE' });
    const held = async (): Promise<boolean> =>
      (await stage.query('SELECT 1 FROM holdfast.locks WHERE name = $1 AND holder IS NOT NULL', [name]))
        .length > 0;
    await eventually('it has arrived', held);
    proxy.pass();
    await eventually('it is taken back', async () => !(await held()));
  });

  it('a slow link only makes it slow', async () => {
    const { proxy, url } = await startLink();
    const locks = stage.locks({ library, url, ttlMs: 8_000 });
    await (await locks.mutex('warm').acquire()).release();
    proxy.delay(100);
    const hold = await locks.mutex(`slow-${library}`).acquire();
    expect(hold.remainingMs).toBeLessThan(7_950);
    await renewed(hold);
    expect(await hold.release()).toBe(true);
    proxy.pass();
  });
});

it.concurrent('row 42: a dead listening connection delays a waiter by seconds, not by a lease', async () => {
  const { proxy } = await startLink();
  const { server } = stage;
  let made = 0;
  // The second connection is the one that listens: it alone goes through the proxy.
  class Routed extends pg.Client {
    constructor(settings: pg.ClientConfig) {
      made += 1;
      super({ ...settings, port: made === 2 ? proxy.port : server.port });
    }
  }
  const { username, pathname } = new URL(stage.url);
  const settings = { host: '127.0.0.1', user: username, database: pathname.slice(1), Client: Routed };
  const waiter = stage.locks({
    pool: new pg.Pool(settings as unknown as pg.PoolConfig),
    connections: 1,
    waitMs: 50_000,
  });
  const holder = stage.locks({ ttlMs: 60_000 });
  const hold = await holder.mutex('deaf').acquire();
  const pending = later(waiter.mutex('deaf').acquire());
  await stage.listening('deaf', 1);
  proxy.drop('both');
  await hold.release();
  const startedMs = performance.now();
  await (await pending).release();
  expect(performance.now() - startedMs).toBeLessThan(30_000);
  // The next waiter is called over a connection that works.
  const again = await holder.mutex('deaf').acquire();
  const next = later(waiter.mutex('deaf').acquire());
  // The first waiter may have got the lock by asking before the heartbeat found the dead
  // connection.
  await eventually('the connection is replaced', () => made >= 3, 30_000);
  await stage.listening('deaf', 1);
  await again.release();
  const releasedMs = performance.now();
  await (await next).release();
  expect(performance.now() - releasedMs).toBeLessThan(4_500);
  proxy.pass();
});

it.concurrent('row 42: a listening connection that only the server sees open is replaced', async () => {
  const { proxy, url } = await startLink();
  const hold = await stage.locks({ ttlMs: 60_000 }).mutex('half').acquire();
  const pending = later(stage.locks({ url, waitMs: 50_000 }).mutex('half').acquire());
  await stage.listening('half', 1);
  /** The server process that listens for the waiter. */
  const listener = async (): Promise<unknown> => {
    const [row] = await stage.query(
      `SELECT l.pid FROM holdfast.waiters w JOIN pg_locks l ON l.locktype = 'advisory' AND l.granted
        AND (l.classid::int8 << 32) | l.objid::int8 = holdfast.channel_lock(w.channel)
        WHERE w.name = 'half'`,
    );
    return row?.pid;
  };
  const before = await listener();
  expect(before).toBeTypeOf('number');
  proxy.halfOpen();
  await eventually('another process listens', async () => {
    const now = await listener();
    return now !== undefined && now !== before;
  });
  // Nothing waits at the server for the old one to end.
  const stuck = await stage.query(
    "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND query LIKE 'SELECT pg_advisory_lock%'",
  );
  expect(stuck).toEqual([]);
  await hold.release();
  await (await pending).release();
  proxy.pass();
});

it.concurrent('the registration of an observer gives up a silent connection after two seconds', async () => {
  const { proxy, url } = await startLink();
  const store = stage.store({ url, connections: 1 });
  const watches = [await store.watch({ name: 'watched' }, () => {})];
  proxy.dropOpen();
  watches.push(await store.watch({ name: 'watched too' }, () => {}));
  const startedMs = performance.now();
  expect(await store.claim(request('after the watch'))).toMatchObject({ granted: true });
  // A statement that no caller limits has ten seconds.
  expect(performance.now() - startedMs).toBeLessThan(5_000);
  for (const watch of watches) await watch[Symbol.asyncDispose]();
  proxy.pass();
});

describe.concurrent('a backend that is paused', () => {
  /** The connections that this many claims are made over. */
  const backendsOf = async (application: string): Promise<number[]> => {
    const rows = await stage.query('SELECT pid FROM pg_stat_activity WHERE application_name = $1', [
      application,
    ]);
    return rows.map(({ pid }) => Number(pid));
  };

  it('row 43: is given up, and the hold is kept over another connection', async () => {
    const pool = new pg.Pool({ connectionString: stage.url, application_name: 'stopped-1' });
    const locks = stage.locks({ pool, connections: 1, ttlMs: 6_000 });
    const hold = await locks.mutex('stop').acquire();
    const resume = (await backendsOf('stopped-1')).map((pid) => stage.server.stopBackend(pid));
    try {
      await renewed(hold);
      expect(await hold.release()).toBe(true);
    } finally {
      for (const each of resume) each();
    }
  });

  it('row 43: while it changes the lock: the holder is notified in time, and other locks work', async () => {
    const locks = stage.locks({ ttlMs: 1_200 });
    const hold = await locks.mutex('stuck').acquire();
    const lost = lostAt(hold);
    // What a paused backend leaves: a row that stays locked.
    const stuck = new pg.Client(stage.url);
    await stuck.connect();
    await stuck.query("BEGIN; SELECT * FROM holdfast.locks WHERE name = 'stuck' FOR UPDATE");
    const others = stage.locks({ ttlMs: 1_200 });
    const pending = later(others.mutex('stuck').acquire());
    for (let n = 0; n < 8; n += 1) {
      await (await locks.mutex(`free-${n}`).acquire()).release();
      await sleep(200);
    }
    expect(lost()).toBeLessThan(performance.now());
    await stuck.query('ROLLBACK');
    const next = await pending;
    expect(lost()).toBeLessThanOrEqual(performance.now());
    expect(next.fence).toBeGreaterThan(hold.fence);
    await next.release();
    await stuck.end();
  });
});

it.concurrent('an abort in the very moment of the grant leaves nothing behind', async () => {
  const locks = stage.locks();
  await (await locks.mutex('warm').acquire()).release();
  for (let n = 0; n < 40; n += 1) {
    const controller = new AbortController();
    const pending = later(locks.mutex('abort').acquire({ signal: controller.signal }));
    if (n % 2 === 0) setImmediate(() => controller.abort());
    else setTimeout(() => controller.abort(), n / 20);
    await pending.then(
      (hold) => hold.release(),
      () => {},
    );
  }
  await eventually('nobody holds it', async () => {
    const { holders, waiters } = await locks.inspect('abort');
    return holders.length + waiters.length === 0;
  });
  expect(await stage.store().claim(request('abort'))).toMatchObject({ granted: true });
});
