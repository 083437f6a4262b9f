import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../src/clock.ts';
import { openLocks } from '../../src/index.ts';
import { holdfast as run } from '../cli/support/holdfast.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { eventually, later, shortest } from '../support/waiting/eventually.ts';
import { LeaseStage, request } from './support/lease-stage.ts';

const stage = await useStage(LeaseStage.start());

describe('the tables', () => {
  it('are made once by twenty stores that start at once', async () => {
    const url = await stage.server.createDatabase();
    const stores = Array.from({ length: 20 }, () => stage.store({ url }));
    const outcomes = await Promise.all(stores.map((store) => store.claim(request('first'))));
    expect(outcomes.filter(({ granted }) => granted)).toHaveLength(1);
  });

  it('are not made where that is not allowed, and the error says what to run', async () => {
    const url = await stage.server.createDatabase();
    await expect(stage.store({ url, migrate: false }).read('x')).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('holdfast migrations'),
    });
    await stage.query("CREATE USER reader@'%' IDENTIFIED BY 'secret'");
    await stage.query(`GRANT SELECT ON ${new URL(url).pathname.slice(1)}.* TO reader@'%'`);
    await expect(stage.store({ url: stage.urlOf('reader', url) }).read('x')).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('CREATE command denied'),
    });
  });

  it('are used, once they were made by hand, by a user with only the documented rights', async () => {
    const url = await stage.server.createDatabase();
    const name = new URL(url).pathname.slice(1);
    const admin = stage.pool(url).promise();
    const printed = await run(['migrations', '--store', 'mysql://nobody@localhost/shop?prefix=jobs_']);
    expect(printed.code).toBe(0);
    // A second time, as a team that runs all of its scripts would.
    for (const script of [printed.stdout, printed.stdout])
      for (const text of script.split(/(?<=;)\n/)) if (text.trim() !== '') await admin.query(text);
    const page = readFileSync(fileURLToPath(new URL('../../docs/stores/mysql.md', import.meta.url)), 'utf8');
    const grants = page.match(/^GRANT .*;$/gm) ?? [];
    expect(grants).toHaveLength(4);
    await stage.query("CREATE USER app@'%' IDENTIFIED BY 'secret'");
    for (const grant of grants) await admin.query(grant.replaceAll('shop.holdfast_', `${name}.jobs_`));
    const locks = stage.locks({ url: stage.urlOf('app', url), store: { prefix: 'jobs_', migrate: false } });
    await locks.withLock('x', async (hold) => {
      await locks.semaphore('s', { permits: 3 }).run(async () => hold.extend());
    });
    await expect(locks.once('done', async () => 1)).resolves.toBeDefined();
  });

  it('of two prefixes are apart, and a URL names one', async () => {
    const url = await stage.server.createDatabase();
    const [a, b] = [await openLocks(`${url}?prefix=a_`), await openLocks(`${url}?prefix=b_`)];
    const held = await Promise.all([a.mutex('x').tryAcquire(), b.mutex('x').tryAcquire()]);
    expect(held.map((hold) => hold !== null)).toEqual([true, true]);
    await Promise.all([a, b].map((locks) => locks.close({ drainMs: 0 })));
  });
});

describe('statements', () => {
  it('a lock that nobody else wants takes one to acquire and one to release', async () => {
    const locks = stage.locks();
    await locks.withLock('counted', async () => {});
    const count = async (): Promise<number> => {
      const before = await stage.statements();
      for (let n = 0; n < 20; n += 1) await locks.withLock('counted', async () => {});
      return (await stage.statements()) - before;
    };
    // What `statements` itself asks is counted as well, and what other stores may do meanwhile.
    expect(await shortest(43, count)).toBeLessThanOrEqual(42);
  });

  it('a hundred locks of one tick take few', async () => {
    const locks = stage.locks();
    await locks.withLock('warm', async () => {});
    const before = await stage.statements();
    const holds = await Promise.all(
      Array.from({ length: 100 }, (_, n) => locks.mutex(`many-${n}`).acquire()),
    );
    await Promise.all(holds.map((hold) => hold.release()));
    expect((await stage.statements()) - before).toBeLessThan(20);
  });
});

describe('waiting', () => {
  it('waiters of one process wake each other at once, without a look at the table', async () => {
    // The timers of looks never fire, and neither do those of callers that ask again.
    const startTimer: Clock['startTimer'] = (ms, fire, options) =>
      systemClock.startTimer(ms > 1 && ms < 60_000 ? 60_000 : ms, fire, options);
    const locks = stage.locks({ store: { clock: { ...systemClock, startTimer } }, waitMs: 10_000 });
    const first = await locks.mutex('local').acquire();
    const order: number[] = [];
    const waiting = Array.from({ length: 10 }, async (_, n) => {
      const hold = await locks.mutex('local').acquire();
      order.push(n);
      await hold.release();
    });
    await eventually('all wait', async () => (await locks.inspect('local')).waiters.length === 10);
    await first.release();
    await Promise.all(waiting);
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  it('a waiter that cannot be woken is told to ask twice before it loses its turn', async () => {
    const store = stage.store();
    await store.claim(request('asked'));
    // The first waiter of a process asks more often.
    await store.claim(request('asked', { wait: true }), undefined, { wake() {} });
    for (let n = 0; n < 40; n += 1) {
      const outcome = await store.claim(request('asked', { wait: true }));
      const askAgainMs = outcome.granted ? null : outcome.retryAfterMs;
      expect(2 * (askAgainMs ?? Number.POSITIVE_INFINITY)).toBeLessThan(5_000);
    }
  });

  it('a renewal that changes the note wakes the waiters of the lock, in every process', async () => {
    const [a, b] = [stage.store(), stage.store()];
    const held = request('noted', { note: 'before' });
    await a.claim(held);
    const woken = { here: 0, there: 0 };
    const waiter = (where: 'here' | 'there') => ({
      wake: () => {
        woken[where] += 1;
      },
    });
    await a.claim(request('noted', { wait: true }), undefined, waiter('here'));
    await b.claim(request('noted', { wait: true }), undefined, waiter('there'));
    await sleep(1_200);
    const before = { ...woken };
    await a.renew(held, { ttlMs: 60_000 });
    await sleep(1_200);
    expect(woken).toEqual(before);
    await a.renew(held, { ttlMs: 60_000, note: 'after' });
    await eventually('both are woken', () => woken.here > before.here && woken.there > before.there);
  });

  it('a store that has died with ten waiters loses its turn within five seconds', async () => {
    const [holder, dead, alive] = [stage.locks(), stage.store(), stage.locks()];
    const hold = await holder.mutex('passed').acquire();
    for (let n = 0; n < 10; n += 1) await dead.claim(request('passed', { wait: true }));
    const waiting = later(alive.mutex('passed').acquire());
    await eventually('all wait', async () => (await holder.inspect('passed')).waiters.length === 11);
    // Closing gives up nothing, as dying does.
    await dead.close();
    const startedMs = performance.now();
    await hold.release();
    await (await waiting).release();
    // With room for a busy machine. Two of them one after the other would take ten seconds.
    expect(performance.now() - startedMs).toBeLessThan(9_500);
    expect((await holder.inspect('passed')).waiters).toEqual([]);
  });

  it('a waiter whose release has failed loses its turn within five seconds', async () => {
    const store = stage.store({ url: stage.proxyUrl });
    const holder = stage.store();
    const held = request('leftover');
    await holder.claim(held);
    const [gone, stays] = [request('leftover', { wait: true }), request('leftover', { wait: true })];
    await store.claim(gone, undefined, { wake: () => {} });
    let woken = 0;
    await store.claim(stays, undefined, {
      wake: () => {
        woken += 1;
      },
    });
    stage.proxy.drop('both');
    await expect(store.release(gone, AbortSignal.timeout(200))).rejects.toMatchObject({ code: 'STORE' });
    stage.proxy.cut();
    stage.proxy.pass();
    const startedMs = performance.now();
    await holder.release(held);
    await eventually('the other is woken', () => woken > 0);
    expect(await store.claim(stays)).toMatchObject({ granted: true });
    // With room for a busy machine.
    expect(performance.now() - startedMs).toBeLessThan(9_500);
    expect(await holder.read('leftover')).toMatchObject([{ id: stays.id }]);
  });

  it('a waiter that is not woken keeps its position by asking again when the store says', async () => {
    const [store, holder] = [stage.store(), stage.store()];
    const held = request('unheard');
    await holder.claim(held);
    const [first, second] = [request('unheard', { wait: true }), request('unheard', { wait: true })];
    for (const each of [first, second]) await store.claim(each);
    for (let waitedMs = 0; waitedMs < 8_000; ) {
      const outcome = await store.claim(second);
      const stepMs = outcome.granted ? 0 : (outcome.retryAfterMs ?? 0);
      await store.claim(first);
      expect(stepMs).toBeLessThanOrEqual(3_000);
      await sleep(stepMs);
      waitedMs += stepMs;
    }
    await holder.release(held);
    expect(await store.claim(second)).toMatchObject({ granted: false });
    expect(await store.claim(first)).toMatchObject({ granted: true });
  }, 20_000);
});

describe('rows', () => {
  it('are pruned when their claims are over, and fences stay above those of pruned rows', async () => {
    const url = await stage.server.createDatabase();
    const [store, admin] = [stage.store({ url }), stage.pool(url).promise()];
    const high = 2n ** 60n;
    const first = request('high', { fenceAbove: high });
    await store.claim(first);
    await store.release(first);
    await store.claim(request('dead', { ttlMs: 1, mode: { kind: 'shared' } }));
    await store.claim(request('held'));
    await sleep(1_100);
    // A thousand new rows start it.
    const claims = Array.from({ length: 1_100 }, (_, n) => request(`new-${n}`));
    await Promise.all(claims.map((claim) => store.claim(claim)));
    const left = async (): Promise<string> => {
      const [rows] = await admin.query(
        "SELECT name FROM holdfast_locks WHERE name IN ('high', 'dead', 'held')",
      );
      return (rows as { name: Buffer }[]).map(({ name }) => name.toString()).join();
    };
    await eventually('the rows of finished claims are gone', async () => (await left()) === 'held');
    const outcome = await store.claim(request('high'));
    expect(outcome).toMatchObject({ granted: true });
    expect(outcome.granted && outcome.fence > high).toBe(true);
  });

  it('that are dropped under a running store are made again', async () => {
    const url = await stage.server.createDatabase();
    const [store, admin] = [stage.store({ url }), stage.pool(url).promise()];
    await store.claim(request('x'));
    await admin.query('DROP TABLE holdfast_locks, holdfast_migrations');
    await store.claim(request('x')).catch(() => {});
    await eventually('it is usable again', async () => {
      const outcome = await store.claim(request('y')).catch(() => null);
      return outcome?.granted === true;
    });
  });
});
