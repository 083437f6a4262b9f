import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/clock.ts';
import type { ConnectionFactory } from '../../../src/stores/postgres/connection.ts';
import { connectionFactoryOf } from '../../../src/stores/postgres/connection-factory.ts';
import { postgresLeaseStore } from '../../../src/stores/postgres/index.ts';
import { LeaseSubscription } from '../../../src/stores/postgres/lease-subscription.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import type { Server } from '../../../src/torture/servers/server.ts';
import { LeaseStage, request } from '../../postgres/support/lease-stage.ts';
import { makePool } from '../../support/clients/postgres-pools.ts';
import { startPgbouncer } from '../../support/servers/pgbouncer.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';

let stage: LeaseStage;
let poolers: Record<'session' | 'transaction', Server>;
const warnings: Array<Error & { code?: string }> = [];
const onWarning = (warning: Error): void => void warnings.push(warning);

beforeAll(async () => {
  process.on('warning', onWarning);
  // So that what functions run counts too.
  stage = await LeaseStage.start({ settings: { 'pg_stat_statements.track': 'all' } });
  const { port } = stage.server;
  poolers = {
    session: await startPgbouncer({ port, mode: 'session' }),
    transaction: await startPgbouncer({ port, mode: 'transaction', poolSize: 1 }),
  };
});
afterAll(async () => {
  process.off('warning', onWarning);
  await poolers.session.stop();
  await poolers.transaction.stop();
  await stage[Symbol.asyncDispose]();
});

const through = (mode: 'session' | 'transaction'): string =>
  stage.url.replace(`:${stage.server.port}/`, `:${poolers[mode].port}/`);

describe.each(['pg.Pool', 'postgres.js'] as const)('row 39: PgBouncer, under %s', (library) => {
  it('by the session: push wake-up works, and nothing is prepared by name', async () => {
    const url = through('session');
    const [a, b] = [stage.locks({ library, url }), stage.locks({ library, url })];
    const name = `session-${library}`;
    const hold = await a.mutex(name).acquire();
    const pending = later(b.mutex(name).acquire());
    await stage.listening(name, 1);
    await hold.release();
    await (await pending).release();
    expect(warnings.filter(({ code }) => code === 'HOLDFAST_POLLING')).toEqual([]);
  });
});

it('row 39: a connection that breaks during the probe is replaced, and nothing polls', async () => {
  const open = connectionFactoryOf(makePool('pg.Pool', through('session')));
  let probes = 0;
  let hasProbeEnded = false;
  let onBroken = (): void => {};
  const broken = new Promise<void>((resolve) => {
    onBroken = resolve;
  });
  const factory: ConnectionFactory = (events) => {
    const driver = open({
      ...events,
      onClose: () => {
        onBroken();
        events.onClose();
      },
    });
    const [run, destroy] = [driver.run.bind(driver), driver.destroy.bind(driver)];
    let isFirstProbe = false;
    driver.run = async (statement) => {
      if (statement.text.includes('pg_notify')) {
        probes += 1;
        isFirstProbe = probes === 1;
      }
      if (isFirstProbe) {
        const listen = `LISTEN "${subscription.channel}"`;
        await stage.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = $1', [
          listen,
        ]);
        await broken;
      }
      return await run(statement);
    };
    driver.destroy = () => {
      hasProbeEnded ||= isFirstProbe;
      destroy();
    };
    return driver;
  };
  const subscription = new LeaseSubscription(factory, systemClock);
  const nothing = (): void => {};
  const events = {
    onGap: nothing,
    onPoll: nothing,
    onChanged: nothing,
    onEvicted: nothing,
    onGranted: nothing,
  };
  subscription.events = { ...events, onHandoff: nothing, isWanted: () => true, isWaiting: () => false };
  await subscription.start();
  await eventually('the probe of the broken connection has ended', () => hasProbeEnded);
  await eventually('the next connection listens', () => subscription.isUp);
  expect(probes).toBe(2);
  expect(subscription.isPolling).toBe(false);
  await subscription.close();
});

describe('row 39: PgBouncer by the transaction, with one server connection for all', () => {
  it.each(['pg.Pool', 'postgres.js'] as const)(
    'two clients exclude each other, under %s',
    async (library) => {
      const url = through('transaction');
      const [a, b] = [stage.store({ library, url }), stage.store({ library, url })];
      const held = request(`pooled-${library}`);
      expect(await a.claim(held)).toMatchObject({ granted: true });
      expect(await b.claim(request(held.name))).toMatchObject({ granted: false });
      expect(await a.release(held)).toBe(true);
      expect(await b.claim(request(held.name))).toMatchObject({ granted: true });
    },
  );

  it('waiters poll, in order; one warning is emitted; shared connections keep no state', async () => {
    const url = through('transaction');
    const advisory = (): Promise<unknown[]> =>
      stage.query(
        "SELECT pid, classid, objid FROM pg_locks WHERE locktype = 'advisory' AND granted ORDER BY 1, 2, 3",
      );
    const before = await advisory();
    const lockses = Array.from({ length: 3 }, () => stage.locks({ url }));
    const [first, second, third] = lockses;
    const hold = await first?.mutex('polled').acquire();
    const order: number[] = [];
    const waiting = [];
    for (const [n, each] of [second, third].entries()) {
      waiting.push(each?.mutex('polled').run(() => void order.push(n)));
      await eventually('it waits', async () => (await first?.inspect('polled'))?.waiters.length === n + 1);
    }
    await hold?.release();
    await Promise.all(waiting);
    expect(order).toEqual([0, 1]);
    expect(warnings.filter(({ code }) => code === 'HOLDFAST_POLLING')).toHaveLength(1);
    // Those of other sessions may have ended meanwhile, because nobody waited any more.
    for (const each of await advisory()) expect(before).toContainEqual(each);
    // The one connection behind the pooler has been used for all of this.
    const client = new pg.Client(url);
    await client.connect();
    const { rows } = await client.query(
      `SELECT name FROM pg_prepared_statements WHERE name LIKE 'holdfast%'
        UNION ALL SELECT pg_listening_channels()`,
    );
    expect(rows).toEqual([]);
    await client.end();
  });

  it('a release wakes the next waiter of its process without a poll, and so does a reader', async () => {
    // Its timers never fire.
    const clock = virtualClock();
    const store = postgresLeaseStore(makePool('pg.Pool', through('transaction')), { clock });
    // From here on it knows that nothing can be heard.
    await (await store.watch({ name: 'other' }, () => {}))[Symbol.asyncDispose]();
    const first = request('next');
    await store.claim(first);
    const queue = [1, 2, 3].map(() => request('next', { wait: true, mode: { kind: 'shared' } }));
    const woken: number[] = [];
    for (const [n, each] of queue.entries()) {
      const waiter = { wake: () => void woken.push(n) };
      expect(await store.claim(each, undefined, waiter)).toMatchObject({ granted: false });
    }
    expect(woken).toEqual([]);
    await store.release(first);
    for (const [n, each] of queue.entries()) {
      await eventually(`${n} is woken`, async () => {
        await clock.advance(0);
        return woken.includes(n);
      });
      expect(await store.claim(each)).toMatchObject({ granted: true });
    }
    expect(woken).toEqual([0, 1, 2]);
    await store.close();
  });

  it('many new locks at once cost the server no compiling', async () => {
    const store = stage.store({ url: through('transaction') });
    await stage.calls('%');
    const claims = Array.from({ length: 300 }, (_, n) => request(`compiled ${n}`));
    await Promise.all(claims.map((each) => store.claim(each)));
    // The column is there from PostgreSQL 15 on.
    const [row] = await stage.query(
      `SELECT sum(calls) > 0 AS counted,
          coalesce(sum((to_jsonb(s) ->> 'jit_functions')::int8), 0)::int AS compiled
        FROM pg_stat_statements AS s
        WHERE query LIKE 'INSERT INTO holdfast.locks%' OR query LIKE 'INSERT INTO "holdfast".locks%'`,
    );
    expect(row).toEqual({ counted: true, compiled: 0 });
  });

  it('observers are still notified of changes', async () => {
    const url = through('transaction');
    const [watcher, other] = [stage.store({ url }), stage.store({ url })];
    let heard = 0;
    const watch = await watcher.watch({ name: 'seen' }, () => {
      heard += 1;
    });
    await other.claim(request('seen'));
    await eventually('it hears', () => heard > 0);
    await watch[Symbol.asyncDispose]();
    const before = heard;
    await sleep(700);
    expect(heard).toBe(before);
  });

  it('an observer that comes before the pooler is recognised is called within seconds', async () => {
    await using proxy = await startFaultProxy(poolers.transaction.port);
    const url = stage.url.replace(`:${stage.server.port}/`, `:${proxy.port}/`);
    const [watcher, other] = [stage.store({ url }), stage.store({ url: through('transaction') })];
    // It takes longer to look for a pooler than `watch` waits for that.
    proxy.delay(500);
    let heard = 0;
    await watcher.watch({ name: 'early' }, () => {
      heard += 1;
    });
    expect(heard).toBe(0);
    proxy.delay(0);
    await other.claim(request('early'));
    // Otherwise it is registered again, and then polled, after 20 s.
    await eventually('it is polled', () => heard >= 2, 10_000);
    await watcher.close();
  });

  it('the pooler goes away in mid-hold and comes back', async () => {
    const locks = stage.locks({ url: through('transaction'), ttlMs: 15_000 });
    const hold = await locks.mutex('restarted').acquire();
    poolers.transaction.kill('SIGQUIT');
    await poolers.transaction.exited();
    await poolers.transaction.start();
    await hold.extend();
    hold.assertHeld();
    expect(await hold.release()).toBe(true);
  });
});
