import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createLocks, openLocks } from '../../src/index.ts';
import { postgresAdvisoryStore } from '../../src/stores/postgres/advisory/advisory-store.ts';
import { hashText } from '../../src/stores/postgres/advisory/hash.ts';
import { request } from '../../src/testing/store-case.ts';
import { closeAndExit, EXITED_AT_ONCE } from '../support/process/close-and-exit.ts';
import { type PostgresServer, startPostgres } from '../support/servers/postgres.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { AdvisoryStage } from './support/advisory-stage.ts';

let server: PostgresServer;
let stage: AdvisoryStage;

beforeAll(async () => {
  server = await startPostgres({ settings: { max_connections: '100' } });
  stage = await AdvisoryStage.on(server);
}, 120_000);
afterEach(() => stage?.end());
afterAll(() => server?.stop());

const tryFrom = (key: string): string => stage.psql(`SELECT pg_try_advisory_xact_lock(${key})`);

describe('postgresAdvisoryStore and other programs', () => {
  it('a name is hashtextextended(name, 0), so that psql is excluded and excludes us', async () => {
    const locks = stage.locks();
    const hold = await locks.mutex('naïve 名').acquire();
    expect(tryFrom("hashtextextended('naïve 名', 0)")).toBe('f');
    await hold.release();
    expect(tryFrom("hashtextextended('naïve 名', 0)")).toBe('t');
    const other = await stage.foreign();
    await other.query("SELECT pg_advisory_lock(hashtextextended('naïve 名', 0))");
    expect(await locks.mutex('naïve 名').tryAcquire()).toBeNull();
    await other.query("SELECT pg_advisory_unlock(hashtextextended('naïve 名', 0))");
    expect(await locks.mutex('naïve 名').tryAcquire()).not.toBeNull();
  });

  it('our hash is the server’s', async () => {
    const client = await stage.foreign();
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'grapheme', maxLength: 80 }), async (text) => {
        if (text.includes('\u0000')) return;
        const { rows } = await client.query('SELECT hashtextextended($1, 0) AS hash', [text]);
        expect(String(hashText(text))).toBe(rows[0].hash);
      }),
      { numRuns: 300 },
    );
  });

  it('the key option gives the keys of other programs: numbers, pairs, other names', async () => {
    const keys = { number: -7n, pair: { classId: 3, objectId: -4 }, name: 'their name' } as const;
    const locks = stage.locks({ store: { key: (name) => keys[name as keyof typeof keys] } });
    for (const name of Object.keys(keys)) await locks.mutex(name).acquire();
    expect(tryFrom('-7')).toBe('f');
    expect(tryFrom('3, -4')).toBe('f');
    expect(tryFrom("hashtextextended('their name', 0)")).toBe('f');
    expect(tryFrom('3, 4')).toBe('t');
    await locks.releaseAll();
    expect([tryFrom('-7'), tryFrom('3, -4')]).toEqual(['t', 't']);
    await expect(stage.store({ key: () => 5 as never }).claim(request('x'))).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    expect(() => stage.store({ key: 'x' as never })).toThrow(/function/);
    // A mistake of the user is reported at once, not retried until the wait is over.
    const failing = stage.locks({
      store: {
        key: () => {
          throw new RangeError('no key');
        },
      },
    });
    await expect(failing.mutex('x').acquire({ waitMs: 60_000 })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      argument: 'key',
      message: expect.stringContaining('no key'),
      cause: expect.any(RangeError),
    });
  });

  it('row 46: names with one key exclude each other, in one process and in two', async () => {
    const options = { store: { key: (name: string) => BigInt(name.length) } };
    const [a, b] = [stage.locks(options), stage.locks(options)];
    const hold = await a.mutex('one').acquire();
    expect(await a.mutex('two').tryAcquire()).toBeNull();
    expect(await b.mutex('six').tryAcquire()).toBeNull();
    expect(await a.mutex('four').tryAcquire()).not.toBeNull();
    const next = later(a.mutex('two').acquire());
    await hold.release();
    expect((await next).fence).toBeGreaterThan(hold.fence);
  });

  it('a release by another program is found by the slow poll', async () => {
    const other = await stage.foreign();
    await other.query("SELECT pg_advisory_lock(hashtextextended('slow', 0))");
    const waiting = later(stage.locks().mutex('slow').acquire({ waitMs: 20_000 }));
    await sleep(300);
    await other.end();
    await waiting;
  });

  it('a database in another encoding has other hashes, and its own are used', async () => {
    await server.query(
      "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'",
    );
    const url = new URL(stage.url);
    url.pathname = '/latin';
    const locks = stage.locks({ store: { url: url.href } });
    const hold = await locks.mutex('é').acquire();
    const inSql = "SET client_encoding = 'UTF8'; SELECT pg_try_advisory_xact_lock(hashtextextended('é', 0))";
    expect(server.psql(url.href, inSql)).toBe('f');
    expect(await hold.release()).toBe(true);
    expect(server.psql(url.href, inSql)).toBe('t');
  });
});

it('a watch that is closed while it begins is refused, and leaves no timer', async () => {
  const store = stage.store();
  await store.claim(request('warm'));
  const watch = store.watch({ name: 'warm' }, () => {});
  await Promise.all([expect(watch).rejects.toMatchObject({ code: 'CLOSED' }), store.close()]);
});

it('a claim that joins another is answered although the fence of that one cannot be given', async () => {
  const store = stage.store();
  await store.claim(request('warm'));
  const ahead = request('joined', { wait: true, fenceAbove: 2n ** 62n });
  const [first, second] = await Promise.allSettled([
    store.claim(ahead),
    store.claim(request('joined', { wait: true })),
  ]);
  expect(first).toMatchObject({ status: 'rejected', reason: { code: 'STORE', applied: 'no' } });
  expect(second).toMatchObject({ status: 'fulfilled', value: { granted: true } });
});

it('a renewal while the claim is being evicted says that it was taken', async () => {
  const store = stage.store();
  const held = request('evicted');
  await store.claim(held, undefined, { wake() {} });
  const evicted = store.evict(held);
  await new Promise(setImmediate);
  expect(await store.renew(held, { ttlMs: 1_000 })).toEqual({ held: false, how: 'taken' });
  expect(await evicted).toBe(true);
});

it('opens by URL', async () => {
  const locks = await openLocks(`${stage.url}?mode=advisory`, { owner: 'by-url' });
  const hold = await locks.mutex('url').acquire();
  expect(tryFrom("hashtextextended('url', 0)")).toBe('f');
  expect((await stage.locks().inspect('url')).holders).toMatchObject([{ owner: 'by-url', id: hold.id }]);
  expect(() => locks.semaphore('url', { permits: 2 })).toThrow(
    expect.objectContaining({ code: 'UNSUPPORTED' }),
  );
  await locks.close({ drainMs: 0 });
  expect(tryFrom("hashtextextended('url', 0)")).toBe('t');
  await expect(openLocks(`${stage.url}?mode=advice`)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
});

it('a process that closes it continues, and exits by itself', async () => {
  expect(await closeAndExit(`${stage.url}?mode=advisory`)).toBe(EXITED_AT_ONCE);
});

describe('one session for all', () => {
  it('1,000 holds take one connection beside a pool of one that is in use', async () => {
    const pool = new pg.Pool({ connectionString: stage.url, max: 1 });
    const mine = await pool.connect();
    await mine.query('BEGIN');
    const locks = createLocks(postgresAdvisoryStore(pool), { waitMs: 30_000 });
    const names = Array.from({ length: 1_000 }, (_, n) => `thousand:${n}`);
    const holds = await Promise.all(names.map((name) => locks.mutex(name).acquire()));
    // Ours, the pool's, and the one that asks. Those of a process that has exited may end a moment later.
    await eventually('there are three sessions', async () => {
      const sessions = await stage.query(
        `SELECT 1 FROM pg_stat_activity
          WHERE datname = current_database() AND backend_type = 'client backend'`,
      );
      return sessions.length === 3;
    });
    const [row] = await stage.query<{ held: string }>(
      "SELECT count(*) AS held FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'",
    );
    expect(row?.held).toBe('1000');
    for (const hold of holds) hold.assertHeld();
    await locks.close({ drainMs: 0 });
    await mine.query('COMMIT');
    mine.release();
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
    await pool.end();
  }, 30_000);

  it('what is asked in one tick travels as one statement', async () => {
    const store = stage.store();
    await store.claim(request('first'));
    const wanted = Array.from({ length: 100 }, (_, n) => request(`tick:${n}`));
    const calls = await stage.callsDuring(async () => {
      const outcomes = await Promise.all(wanted.map((each) => store.claim(each)));
      expect(outcomes.every((outcome) => outcome.granted)).toBe(true);
      await Promise.all(wanted.map((each) => store.renew(each, { ttlMs: 1_000 })));
      expect(await Promise.all(wanted.map((each) => store.release(each)))).not.toContain(false);
    });
    expect(calls).toBe(3);
  });

  it('nothing is queued on the client, so that the library has nothing to warn of', async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on('warning', onWarning);
    const locks = stage.locks();
    const task = async (n: number): Promise<void> => {
      for (let round = 0; round < 5; round += 1) await locks.withLock(`busy:${n % 7}`, () => sleep(n % 3));
      await locks.inspect(`busy:${n}`);
    };
    await Promise.all(Array.from({ length: 40 }, (_, n) => task(n)));
    await sleep(0);
    process.off('warning', onWarning);
    expect(warnings).toEqual([]);
  });

  it('tasks of one process exclude each other, and readers of several share', async () => {
    const [a, b] = [stage.locks(), stage.locks()];
    let inside = 0;
    const enter = async (n: number): Promise<void> => {
      await (n % 2 ? a : b).withLock('task', async () => {
        inside += 1;
        expect(inside).toBe(1);
        await sleep(1);
        inside -= 1;
      });
    };
    await Promise.all(Array.from({ length: 40 }, (_, n) => enter(n)));
    const readers = await Promise.all([a, a, b].map((locks) => locks.readWriteLock('shared').read.acquire()));
    expect(new Set(readers.map(({ fence }) => fence)).size).toBeGreaterThan(1);
    const writer = a.readWriteLock('shared').write;
    expect(await writer.tryAcquire()).toBeNull();
    await readers[0]?.release();
    expect(await writer.tryAcquire()).toBeNull();
    expect(tryFrom("hashtextextended('shared', 0)")).toBe('f');
    await readers[1]?.release();
    expect(await writer.tryAcquire()).toBeNull();
    await readers[2]?.release();
    expect(await writer.tryAcquire()).not.toBeNull();
  });

  it('a reader that leaves while another enters does not take the lock with it', async () => {
    const store = stage.store();
    for (let round = 0; round < 30; round += 1) {
      const first = request('turn', { mode: { kind: 'shared' } });
      const second = request('turn', { mode: { kind: 'shared' } });
      await store.claim(first);
      const [entered, left] = await Promise.all([store.claim(second), store.release(first)]);
      expect([entered.granted, left]).toEqual([true, true]);
      expect(tryFrom("hashtextextended('turn', 0)")).toBe('f');
      await store.release(second);
      expect(await stage.sessionsWith('turn')).toEqual([]);
      if (round > 3)
        await Promise.all([store.claim(first), store.release(first)]).then(() => store.release(first));
      expect(await stage.sessionsWith('turn')).toEqual([]);
    }
  }, 30_000);
});
