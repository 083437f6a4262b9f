import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { expect, it } from 'vitest';
import { type Clock, systemClock } from '../../src/clock.ts';
import { createLocks } from '../../src/index.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { LeaseStage, request } from './support/lease-stage.ts';

const stage = await useStage(LeaseStage.start());

it('locks work again after the tables were emptied', async () => {
  const store = stage.store({ connections: 1 });
  await store.claim(request('warm'));
  await stage.query('TRUNCATE holdfast.locks, holdfast.shares, holdfast.waiters, holdfast.floor');
  const modes = [{ kind: 'exclusive' }, { kind: 'shared' }, { kind: 'permits', count: 1, of: 2 }] as const;
  const claims = modes.map((mode) => request(`emptied-${mode.kind}`, { mode }));
  const outcomes = await Promise.all(claims.map((each) => store.claim(each)));
  expect(outcomes.map(({ granted }) => granted)).toEqual([true, true, true]);
  await stage.query('INSERT INTO holdfast.floor (fence) VALUES (0)');
});

it('an invalid answer loses no hold, and every call is answered', async () => {
  const store = stage.store({ connections: 1 });
  const held = [request('mute-a'), request('mute-b')];
  for (const each of held) await store.claim(each);
  await stage.query('ALTER FUNCTION holdfast.renew_one RENAME TO renew_one_kept');
  await stage.query(
    `CREATE FUNCTION holdfast.renew_one(p_name text, p_id text, p_ttl_ms bigint, p_note text)
      RETURNS text LANGUAGE sql AS 'SELECT NULL::text'`,
  );
  const renewed = (claims = held) =>
    Promise.allSettled(claims.map((each) => store.renew(each, { ttlMs: 60_000 })));
  for (const result of [...(await renewed()), ...(await renewed(held.slice(1)))])
    expect(result).toMatchObject({ reason: { code: 'STORE', applied: 'unknown' } });
  await stage.query('DROP FUNCTION holdfast.renew_one(text, text, bigint, text)');
  await stage.query('ALTER FUNCTION holdfast.renew_one_kept RENAME TO renew_one');
  for (const result of await renewed()) expect(result).toMatchObject({ value: { held: true } });
});

it('a failure of one operation of a statement fails none of the others', async () => {
  await stage.query("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'");
  const url = Object.assign(new URL(stage.url), { pathname: '/latin' }).href;
  const store = stage.store({ url, connections: 1 });
  const held = Array.from({ length: 20 }, (_, n) => request(`kept-${n}`));
  for (const each of held) await store.claim(each);
  const results = await Promise.allSettled([
    ...held.slice(0, 10).map((each) => store.renew(each, { ttlMs: 60_000 })),
    // The encoding of this database does not have this character.
    store.claim(request('\u9396')),
    ...held.slice(10).map((each) => store.release(each)),
    store.claim(request('m\u00fcsli')),
  ]);
  expect(results[10]).toMatchObject({ reason: { code: 'STORE', applied: 'no' } });
  const others = results.flatMap((result, n) =>
    n === 10 || result.status === 'rejected' ? [] : [result.value],
  );
  expect(others).toEqual([
    ...Array.from({ length: 10 }, () => ({ held: true, validForMs: 60_000 })),
    ...Array.from({ length: 10 }, () => true),
    expect.objectContaining({ granted: true }),
  ]);
});

it('a dead waiter is passed over at once, also by two sessions at the same time', async () => {
  await stage.store().claim(request('warm'));
  const enter = (name: string, id: string, channel: string | null) =>
    stage.query("SELECT holdfast.claim_one($1, $2, 60000, true, 0, 0, '', 0, 10, $3)", [name, id, channel]);
  for (const name of ['dead-a', 'dead-b']) {
    await enter(name, 'holder', null);
    await enter(name, 'dead', 'holdfast_nobody');
    await enter(name, 'alive', null);
  }
  const other = new pg.Client(stage.url);
  await other.connect();
  await other.query('BEGIN');
  await other.query("SELECT holdfast.release_one('dead-a', 'holder')");
  await stage.query("SELECT holdfast.release_one('dead-b', 'holder')");
  await other.query('COMMIT');
  await other.end();
  expect(
    await stage.query(
      `SELECT name, id, woken_at IS NOT NULL AS woken FROM holdfast.waiters
        WHERE name LIKE 'dead-%' ORDER BY name, position`,
    ),
  ).toEqual([
    { name: 'dead-a', id: 'alive', woken: true },
    { name: 'dead-b', id: 'alive', woken: true },
  ]);
});

it('waiters of a dead process are removed, those of one that reconnects in time are not', async () => {
  await stage.store().claim(request('warm'));
  const enter = (id: string, channel: string) =>
    stage.query("SELECT holdfast.claim_one('cleaned', $1, 60000, true, 0, 0, '', 0, 10, $2)", [id, channel]);
  const clean = () => stage.query('SELECT holdfast.remove_dead_waiters() AS locks');
  const waiting = async () =>
    (await stage.query("SELECT id FROM holdfast.waiters WHERE name = 'cleaned' ORDER BY position")).map(
      ({ id }) => id,
    );
  await enter('holder', 'holdfast_nobody');
  for (const id of ['dead', 'back', 'alive']) await enter(id, `holdfast_${id}`);
  const listener = new pg.Client(stage.url);
  await listener.connect();
  await listener.query("SELECT pg_advisory_lock(hashtextextended('holdfast_alive', 4701))");
  expect(await clean()).toEqual([{ locks: 1 }]);
  expect(await waiting()).toEqual(['dead', 'back', 'alive']);
  await enter('back', 'holdfast_back');
  // As if the time to connect again were over.
  await stage.query(
    "UPDATE holdfast.waiters SET expires_at = expires_at - interval '11 seconds' WHERE name = 'cleaned'",
  );
  expect(await clean()).toEqual([{ locks: 1 }]);
  expect(await waiting()).toEqual(['back', 'alive']);
  const [row] = await stage.query("SELECT waiting FROM holdfast.locks WHERE name = 'cleaned'");
  expect(row).toEqual({ waiting: 2 });
  await listener.end();
});

it('the check after a handoff takes the lock from no holder, whatever its id', async () => {
  const id = '-';
  const clock: Clock = {
    ...systemClock,
    // The check comes after five seconds; the test need not wait for that.
    startTimer: (ms, fire, options) =>
      systemClock.startTimer(ms > 5_000 && ms < 6_000 ? 200 : ms, fire, options),
  };
  const store = stage.store({ clock });
  const held = request('looked after');
  await store.claim(held);
  const ask = async () =>
    (await stage.query('SELECT granted FROM holdfast.claim($1, $2, wait => true)', [held.name, id]))[0]
      ?.granted;
  expect(await ask()).toBe(false);
  await store.release(held);
  expect(await ask()).toBe(true);
  await sleep(500);
  expect(await store.read(held.name)).toMatchObject([{ id, granted: true }]);
});

it('observers that have disappeared are deleted with the row of the lock', async () => {
  await stage.store().claim(request('warm'));
  await stage.query("SELECT holdfast.observe('observed-' || n, 'nobody', 1) FROM generate_series(1, 20) n");
  await stage.query("SELECT holdfast.observe('observed-still', 'somebody', 60000)");
  await sleep(20);
  await stage.query('SELECT holdfast.prune(0)');
  for (const table of ['locks', 'observers'])
    expect(await stage.query(`SELECT name FROM holdfast.${table} WHERE name LIKE 'observed-%'`)).toEqual([
      { name: 'observed-still' },
    ]);
});

it('an observer of a lock that is busy while it is registered hears of later changes', async () => {
  const store = stage.store();
  const held = request('busy for an observer');
  await store.claim(held);
  await using _ = await store.watch({ name: 'makes it listen' }, () => {});
  await eventually('it listens', async () => {
    const rows = await stage.query("SELECT 1 FROM holdfast.observers WHERE name = 'makes it listen'");
    return rows.length > 0;
  });
  const other = await stage.admin.connect();
  await other.query('BEGIN');
  await other.query('SELECT 1 FROM holdfast.locks WHERE name = $1 FOR UPDATE', [held.name]);
  let calls = 0;
  await using _observer = await store.watch(held, () => {
    calls += 1;
  });
  await other.query('ROLLBACK');
  other.release();
  await store.release(held);
  // It is registered again after 15 s in any case.
  await eventually('it is called', () => calls > 0, 12_000);
});

it('no fence is so great that a greater one cannot follow, for this lock or any other', async () => {
  const store = stage.store();
  for (const fenceAbove of [2n ** 62n + 1n, 2n ** 63n - 2n, 2n ** 63n - 1n, 2n ** 70n]) {
    const refused = store.claim(request('great', { fenceAbove }));
    await expect(refused).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
    if (fenceAbove < 2n ** 63n)
      await expect(
        stage.query("SELECT * FROM holdfast.claim('great', 'psql', fence_above => $1)", [`${fenceAbove}`]),
      ).rejects.toMatchObject({ code: '22003' });
  }
  const greatest = request('great', { fenceAbove: 2n ** 62n });
  expect(await store.claim(greatest)).toMatchObject({ granted: true, fence: 2n ** 62n + 1n });
  await store.release(greatest);
  expect(await store.claim(request('great', { ttlMs: 1 }))).toMatchObject({ fence: 2n ** 62n + 2n });
  await sleep(20);
  await stage.query('SELECT holdfast.prune(0)');
  const another = await store.claim(request('another'));
  expect(another).toMatchObject({ granted: true, fence: 2n ** 62n + 3n });
  // A fence that this store has given is accepted as `fenceAbove`.
  expect(await store.claim(request('next', { fenceAbove: 2n ** 62n + 3n }))).toMatchObject({
    granted: true,
    fence: 2n ** 62n + 4n,
  });
});

it('pruning does not delay renewals, also over one connection while a backup reads the tables', async () => {
  const clock: Clock = {
    ...systemClock,
    startTimer: (ms, fire, options) => systemClock.startTimer(ms === 60_000 ? 600 : ms, fire, options),
  };
  await using locks = createLocks(stage.store({ clock, connections: 1 }), { ttlMs: 4_000 });
  const hold = await locks.mutex('kept').acquire();
  const backup = new pg.Client(stage.url);
  await backup.connect();
  await backup.query('BEGIN; LOCK TABLE holdfast.locks IN ACCESS SHARE MODE');
  const vacuums = async () =>
    Number(
      (
        await stage.query(
          "SELECT vacuum_count FROM pg_stat_user_tables WHERE relid = 'holdfast.locks'::regclass",
        )
      )[0]?.vacuum_count,
    );
  const before = await vacuums();
  await Promise.all(
    Array.from(
      { length: 2_500 },
      async (_, n) => await (await locks.mutex(`brief-${n}`).acquire()).release(),
    ),
  );
  await eventually('its space was given back', async () => (await vacuums()) > before);
  hold.assertHeld();
  await hold.release();
  await backup.end();
});
