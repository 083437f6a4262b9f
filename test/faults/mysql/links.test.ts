import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { LeaseStage, request } from '../../mysql/support/lease-stage.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { turns } from '../../support/waiting/event-loop-turns.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';

const stage = await useStage(LeaseStage.start());

it('a silent connection: the holder is notified before another can hold', async () => {
  const [locks, others] = [
    stage.locks({ url: stage.proxyUrl, ttlMs: 3_000, commandMs: 2_000 }),
    stage.locks(),
  ];
  const hold = await locks.mutex('silent').acquire();
  let lostAtMs = 0;
  hold.signal.addEventListener('abort', () => {
    lostAtMs = performance.now();
  });
  const next = later(others.mutex('silent').acquire());
  stage.proxy.drop('both');
  const failing = later(locks.mutex('unreachable').acquire({ waitMs: 1_500 }));
  const taken = await next;
  await turns();
  const takenAtMs = performance.now();
  expect(lostAtMs).toBeGreaterThan(0);
  expect(lostAtMs).toBeLessThanOrEqual(takenAtMs);
  await expect(failing).rejects.toMatchObject({ code: 'STORE' });
  stage.proxy.cut();
  stage.proxy.pass();
  await taken.release();
  await (await locks.mutex('silent').acquire()).release();
}, 30_000);

it('open connections that fall silent cost no hold, also while other locks are waited for', async () => {
  const [locks, others] = [stage.locks({ url: stage.proxyUrl, ttlMs: 6_000 }), stage.locks()];
  const hold = await locks.mutex('kept').acquire();
  const names = ['waited for 1', 'waited for 2', 'waited for 3'];
  const blocking = await Promise.all(names.map((name) => others.mutex(name).acquire()));
  const waiting = names.map((name) => later(locks.mutex(name).acquire({ waitMs: 60_000 })));
  for (const name of names)
    await eventually('a waiter', async () => (await others.inspect(name)).waiters.length === 1);
  // More calls at a time than the store has connections, so that all of them are open.
  for (let round = 0; round < 5; round += 1)
    await Promise.all(
      Array.from({ length: 300 }, (_, n) => locks.withLock(`busy ${round} ${n}`, () => sleep(n % 7))),
    );
  stage.proxy.dropOpen();
  await sleep(8_000);
  hold.assertHeld();
  await Promise.all(blocking.map((each) => each.release()));
  for (const each of waiting) await (await each).release();
  await hold.release();
}, 60_000);

it('replies that are lost: what is asked again by the same id is granted once, with one fence', async () => {
  const store = stage.store({ url: stage.proxyUrl });
  const claim = request('lost-reply');
  await store.read('warm');
  stage.proxy.holdReplies();
  await expect(store.claim(claim, AbortSignal.timeout(300))).rejects.toMatchObject({ applied: 'unknown' });
  stage.proxy.cut();
  stage.proxy.pass();
  const again = await store.claim(claim);
  const [held] = await store.read('lost-reply');
  expect(again).toMatchObject({ granted: true, fence: held?.fence });
});

it('a connection that breaks before it is ready: nothing was sent, and the error says so', async () => {
  const [url, prefix] = [stage.urlOf('starter'), 'starting_'];
  await stage.addUser('starter');
  await stage.store({ prefix }).read('makes the tables');
  const other = await stage.admin.getConnection();
  await other.query('LOCK TABLES starting_migrations WRITE');
  const claiming = later(stage.store({ url, prefix }).claim(request('not sent')));
  await eventually('it looks which migrations were applied', async () => {
    const rows = await stage.query<{ ID: number }>(
      `SELECT ID FROM information_schema.PROCESSLIST
        WHERE USER = 'starter' AND INFO LIKE '%starting_migrations%'`,
    );
    for (const { ID } of rows) await stage.query(`KILL CONNECTION ${ID}`);
    return rows.length > 0;
  });
  await other.query('UNLOCK TABLES');
  other.release();
  await expect(claiming).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
});

it('claims that were given up while the server was out of reach are never sent', async () => {
  const locks = stage.locks({ url: stage.proxyUrl });
  const rowsOf = (like: string) => stage.query('SELECT name FROM holdfast_locks WHERE name LIKE ?', [like]);
  await (await locks.mutex('given back').acquire()).release();
  stage.proxy.refuse();
  stage.proxy.cut();
  const controller = new AbortController();
  const calls = Array.from({ length: 50 }, (_, n) => [
    locks.mutex(`given up by abort ${n}`).acquire({ signal: controller.signal }),
    locks.mutex(`given up in time ${n}`).acquire({ waitMs: 100 }),
  ]).flat();
  const settled = Promise.allSettled(calls);
  await sleep(300);
  controller.abort();
  const outcomes = await settled;
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toEqual([]);
  stage.proxy.pass();
  // Shows that the store works again, and that a lock leaves its row when it is released.
  await (await locks.mutex('given back').acquire()).release();
  expect(await rowsOf('given back')).toHaveLength(1);
  expect(await rowsOf('given up %')).toEqual([]);
}, 30_000);

it('links that keep breaking: every caller is granted, one after the other', async () => {
  const locks = Array.from({ length: 2 }, () => stage.locks({ url: stage.proxyUrl, commandMs: 2_000 }));
  let isOver = false;
  const breaking = (async () => {
    // A busy machine may need more than the short times for one statement.
    for (let cuts = 1; !isOver; cuts += 1) {
      await sleep(cuts % 4 === 0 ? 500 : 60);
      stage.proxy.cut();
    }
  })();
  let inside = 0;
  let most = 0;
  const worker = async (each: (typeof locks)[number]): Promise<void> => {
    for (let n = 0; n < 5; n += 1) {
      const hold = await each.mutex('breaking').acquire();
      inside += 1;
      most = Math.max(most, inside);
      await sleep(2);
      inside -= 1;
      await hold.release().catch(() => false);
    }
  };
  try {
    await Promise.all(locks.flatMap((each) => [worker(each), worker(each)]));
  } finally {
    isOver = true;
    await breaking;
  }
  expect(most).toBe(1);
  await eventually(
    'nothing is left',
    async () => (await stage.store().read('breaking')).length === 0,
    15_000,
  );
}, 60_000);
