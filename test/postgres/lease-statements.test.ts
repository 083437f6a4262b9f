import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { beforeAll, expect, it } from 'vitest';
import { useStage } from '../support/hooks/use-stage.ts';
import { eventually, shortest } from '../support/waiting/eventually.ts';
import { LeaseStage, request } from './support/lease-stage.ts';

const stage = await useStage(LeaseStage.start({ settings: { 'pg_stat_statements.track': 'all' } }));
beforeAll(async () => {
  await stage.query('CREATE EXTENSION pg_stat_statements');
});

/** Top-level statements of the store: all of them select one answer. */
const OURS = 'SELECT answer, CASE%';

it('what is asked in one tick is one statement: claims, renewals and releases together', async () => {
  const store = stage.store({ connections: 1 });
  const held = Array.from({ length: 40 }, (_, n) => request(`tick-${n}`));
  await store.claim(request('warm'));
  const before = await stage.calls(OURS);
  const first = await Promise.all(held.map((each) => store.claim(each)));
  expect(first.every((outcome) => outcome.granted)).toBe(true);
  expect((await stage.calls(OURS)) - before).toBe(1);

  const mixed = await Promise.all([
    ...held.slice(0, 20).map((each) => store.renew(each, { ttlMs: 60_000 })),
    ...held.slice(20).map((each) => store.release(each)),
    ...Array.from({ length: 20 }, (_, n) => store.claim(request(`tick-${n}`))),
    ...Array.from({ length: 20 }, (_, n) => store.claim(request(`tock-${n}`))),
  ]);
  expect((await stage.calls(OURS)) - before).toBe(2);
  expect(mixed.slice(0, 20)).toEqual(Array.from({ length: 20 }, () => ({ held: true, validForMs: 60_000 })));
  expect(mixed.slice(20, 40)).toEqual(Array.from({ length: 20 }, () => true));
  expect(mixed.slice(40).map((outcome) => (outcome as { granted: boolean }).granted)).toEqual([
    ...Array.from({ length: 20 }, () => false),
    ...Array.from({ length: 20 }, () => true),
  ]);
});

it('10,000 leases of one process renew in at most 100 statements', async () => {
  const store = stage.store();
  const held = Array.from({ length: 10_000 }, (_, n) => request(`many-${n}`));
  await Promise.all(held.map((each) => store.claim(each)));
  const before = await stage.calls(OURS);
  const renewed = await Promise.all(held.map((each) => store.renew(each, { ttlMs: 60_000 })));
  expect(renewed.every((outcome) => outcome.held)).toBe(true);
  const statements = (await stage.calls(OURS)) - before;
  expect(statements).toBeGreaterThanOrEqual(79);
  expect(statements).toBeLessThanOrEqual(100);
  await Promise.all(held.map((each) => store.release(each)));
});

it('NOTIFY is sent only when a claim waits, and to one waiter', async () => {
  const [a, b] = [stage.locks(), stage.locks()];
  const sent = () => stage.calls('%pg_notify(%');
  const before = await sent();
  for (let n = 0; n < 5; n += 1) await (await a.mutex('quiet').acquire()).release();
  expect(await sent()).toBe(before);
  const hold = await a.mutex('quiet').acquire();
  const waiting = [b.mutex('quiet').acquire(), b.mutex('quiet').acquire()];
  await stage.listening('quiet', 2);
  expect(await sent()).toBe(before);
  await hold.release();
  const next = await waiting[0];
  expect(await sent()).toBe(before + 1);
  await next?.release();
  await (await waiting[1])?.release();
});

it('fifty waiters of one process ask for almost nothing while the lock is held', async () => {
  const [a, b] = [stage.locks(), stage.locks({ waitMs: 60_000 })];
  const hold = await a.mutex('fifty').acquire();
  const waiting = Array.from({ length: 50 }, () => b.mutex('fifty').run(() => {}));
  await stage.listening('fifty', 50);
  // Once they have all come.
  await eventually('they ask for almost nothing', async () => {
    const before = await stage.calls(OURS);
    await sleep(2_000);
    return (await stage.calls(OURS)) - before <= 4;
  });
  await hold.release();
  await Promise.all(waiting);
});

it('readers behind a writer are granted together, also more than one call wakes', async () => {
  const [a, b] = [stage.locks(), stage.locks({ waitMs: 60_000 })];
  const enter = async (): Promise<number> => {
    const writer = await a.readWriteLock('crowd').write.acquire();
    const readers = Array.from({ length: 250 }, () => b.readWriteLock('crowd').read.acquire());
    await stage.listening('crowd', 250);
    await writer.release();
    const startedMs = performance.now();
    const holds = await Promise.all(readers);
    const tookMs = performance.now() - startedMs;
    expect((await a.inspect('crowd')).holders).toHaveLength(250);
    await Promise.all(holds.map((hold) => hold.release()));
    return tookMs;
  };
  // The process that released checks again after five seconds; the waiters must not depend on that.
  expect(await shortest(4_500, enter)).toBeLessThan(4_500);
});

it('an operation never waits for a locked row, nor do the others of its statement', async () => {
  const store = stage.store({ connections: 1 });
  const held = request('row-a');
  await store.claim(held);
  const other = new pg.Client(stage.url);
  await other.connect();
  await other.query("BEGIN; SELECT * FROM holdfast.locks WHERE name = 'row-a' FOR UPDATE");
  let isDone = false;
  const busy = store.renew(held, { ttlMs: 60_000 }).finally(() => {
    isDone = true;
  });
  // In the same statement, and in a later one over the same connection.
  expect(await store.claim(request('row-b'))).toMatchObject({ granted: true });
  expect(await store.claim(request('row-c'))).toMatchObject({ granted: true });
  expect(isDone).toBe(false);
  await other.query('COMMIT');
  expect(await busy).toEqual({ held: true, validForMs: 60_000 });
  await other.end();
});

it('a row that stays locked is a failure without effect, not a wait without end', async () => {
  const store = stage.store({ connections: 1 });
  const held = request('row-d');
  await store.claim(held);
  const other = new pg.Client(stage.url);
  await other.connect();
  await other.query("BEGIN; SELECT * FROM holdfast.locks WHERE name = 'row-d' FOR UPDATE");
  await expect(store.release(held)).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
  await other.query('COMMIT');
  expect(await store.release(held)).toBe(true);
  await other.end();
});

it('one statement at a time creates the row of a lock, and no other waits for it', async () => {
  const store = stage.store();
  await store.claim(request('warm'));
  const other = new pg.Client(stage.url);
  await other.connect();
  await other.query(
    "BEGIN; SELECT holdfast.claim_one('unborn', 'other', 60000, false, 0, 0, '', 0, 10, NULL)",
  );
  const pending = store.claim(request('unborn'));
  expect(await store.claim(request('born'))).toMatchObject({ granted: true });
  await other.query('ROLLBACK');
  expect(await pending).toMatchObject({ granted: true });
  await other.end();
});

it('a claim that was given up while its row was being made is taken back, not missed', async () => {
  const store = stage.store();
  await store.claim(request('warm'));
  const given = request('cut off');
  const other = new pg.Client(stage.url);
  await other.connect();
  // The server continues a statement after the client has disconnected.
  await other.query('BEGIN');
  await other.query("SELECT holdfast.claim_one($1, $2, 60000, false, 0, 0, '', 0, 10, NULL)", [
    given.name,
    given.id,
  ]);
  const released = store.release(given);
  await store.claim(request('warm'));
  await other.query('COMMIT');
  expect(await released).toBe(true);
  expect(await store.read(given.name)).toEqual([]);
  await other.end();
  // Locks without a row, which no statement is creating, are answered as free, however many.
  const nowhere = Array.from({ length: 300 }, (_, n) => request(`nowhere ${n}`));
  expect(await Promise.all(nowhere.map((each) => store.release(each)))).not.toContain(true);
});

it('an expired hold cannot be renewed, also when no other claim was made', async () => {
  const store = stage.store();
  const modes = [{ kind: 'exclusive' }, { kind: 'shared' }, { kind: 'permits', count: 1, of: 2 }] as const;
  const claims = modes.map((mode) => request(`over-${mode.kind}`, { mode, ttlMs: 30 }));
  for (const each of claims) expect(await store.claim(each)).toMatchObject({ granted: true });
  await sleep(60);
  for (const each of claims) {
    expect(await store.renew(each, { ttlMs: 60_000 })).toEqual({ held: false });
    expect(await store.read(each.name)).toEqual([]);
    expect(await store.release(each)).toBe(false);
  }
  const listed: string[] = [];
  for await (const name of store.list('over-')) listed.push(name);
  expect(listed).toEqual([]);
});

it.each([
  { isSubscribed: true, lifeMs: 120_000 },
  { isSubscribed: false, lifeMs: 40_000 },
])('a waiter that does not ask again loses its position in time: %o', async ({ isSubscribed, lifeMs }) => {
  const store = stage.store();
  const name = `position-${lifeMs}`;
  const ask = { wait: true, ttlMs: 600_000 };
  const [held, silent, asking] = [request(name, { ttlMs: 600_000 }), request(name, ask), request(name, ask)];
  const waits = (each: typeof held): ReturnType<typeof store.claim> => {
    // Woken when the subscription is up, it says where it can be reached.
    const waiter = isSubscribed ? { wake: () => void waits(each) } : undefined;
    return store.claim(each, undefined, waiter);
  };
  expect(await store.claim(held)).toMatchObject({ granted: true });
  for (const each of [silent, asking]) expect(await waits(each)).toMatchObject({ granted: false });
  if (isSubscribed) await stage.listening(name, 2);
  /** As if this much time had passed. */
  const pass = async (ms: number): Promise<void> => {
    const since = `- ${ms} * interval '1 millisecond'`;
    await stage.query(`UPDATE holdfast.waiters SET expires_at = expires_at ${since} WHERE name = $1`, [name]);
    await stage.query(`UPDATE holdfast.locks SET ends_at = ends_at ${since} WHERE name = $1`, [name]);
  };
  const ids = async () => (await store.read(name)).map(({ id }) => id);
  await pass(lifeMs - 5_000);
  expect(await ids()).toEqual([held.id, silent.id, asking.id]);
  await waits(asking);
  await pass(6_000);
  expect(await ids()).toEqual([held.id, asking.id]);
  await store.release(held);
  expect(await store.claim(asking)).toMatchObject({ granted: true });
});

it('changes of a row stay within its page, and finished rows are pruned', async () => {
  const changes = async (): Promise<{ all: number; hot: number }> => {
    const [row] = await stage.query(
      `SELECT n_tup_upd::int AS all, n_tup_hot_upd::int AS hot
        FROM pg_stat_user_tables WHERE relname = 'locks'`,
    );
    return { all: Number(row?.all), hot: Number(row?.hot) };
  };
  const before = await changes();
  const store = stage.store();
  for (let round = 0; round < 30; round += 1) {
    const claims = Array.from({ length: 100 }, (_, n) => request(`hot-${n}`));
    await Promise.all(claims.map((each) => store.claim(each)));
    await Promise.all(claims.map((each) => store.release(each)));
  }
  // A session reports its statistics when it ends.
  await store.close();
  await eventually('it is counted', async () => (await changes()).all >= before.all + 5_800);
  const after = await changes();
  expect((after.hot - before.hot) / (after.all - before.all)).toBeGreaterThan(0.8);
  await sleep(20);
  await stage.query('SELECT holdfast.prune(0, 100000)');
  const left = await stage.query("SELECT name FROM holdfast.locks WHERE name LIKE 'hot-%'");
  expect(left).toEqual([]);
});

it('the store prunes by itself, and raises the floor with it', async () => {
  const store = stage.store();
  const claims = Array.from({ length: 1_500 }, (_, n) => request(`pruned-${n}`));
  const outcomes = await Promise.all(claims.map((each) => store.claim(each)));
  await Promise.all(claims.map((each) => store.release(each)));
  // The first thousand new rows set it off; what was released too lately is left for the next time.
  await sleep(1_200);
  await Promise.all(Array.from({ length: 1_000 }, (_, n) => store.claim(request(`more-${n}`))));
  await eventually('they are gone', async () => {
    const [row] = await stage.query(
      "SELECT count(*)::int AS left FROM holdfast.locks WHERE name LIKE 'pruned-%'",
    );
    return row?.left === 0;
  });
  const greatest = outcomes.reduce(
    (most, each) => (each.granted && each.fence > most ? each.fence : most),
    0n,
  );
  const [row] = await stage.query('SELECT fence::text FROM holdfast.floor');
  expect(BigInt(String(row?.fence))).toBeGreaterThanOrEqual(greatest);
});

it('a fence that ran ahead of the clock is not given again after its row was pruned', async () => {
  const store = stage.store();
  const ahead = BigInt(Date.now()) * 1_000n + 10n ** 13n;
  const first = request('ahead', { fenceAbove: ahead });
  const outcome = await store.claim(first);
  expect(outcome).toMatchObject({ granted: true, fence: ahead + 1n });
  await store.release(first);
  await sleep(20);
  await stage.query('SELECT holdfast.prune(0, 100000)');
  expect(await stage.query("SELECT 1 FROM holdfast.locks WHERE name = 'ahead'")).toEqual([]);
  expect(await store.claim(request('ahead'))).toMatchObject({ granted: true, fence: ahead + 2n });
});
