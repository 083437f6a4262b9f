import { writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createLocks, type Hold, type Locks } from '../../../src/index.ts';
import {
  AdvisoryStore,
  postgresAdvisoryStore,
} from '../../../src/stores/postgres/advisory/advisory-store.ts';
import type { ConnectionFactory, Statement } from '../../../src/stores/postgres/connection.ts';
import { connectionFactoryFromUrl } from '../../../src/stores/postgres/connection-factory.ts';
import { request } from '../../../src/testing/store-case.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { AdvisoryStage } from '../../postgres/support/advisory-stage.ts';
import { startPgbouncer } from '../../support/servers/pgbouncer.ts';
import { type PostgresServer, startPostgres } from '../../support/servers/postgres.ts';

let server: PostgresServer;
let stage: AdvisoryStage;

beforeAll(async () => {
  server = await startPostgres();
  stage = await AdvisoryStage.on(server);
}, 120_000);
afterEach(() => stage?.end());
afterAll(() => server?.stop());

/** When the hold was lost, by `performance.now`. */
function watchLoss(hold: Hold): { at: number | null } {
  const loss: { at: number | null } = { at: null };
  hold.signal.addEventListener('abort', () => {
    loss.at = performance.now();
  });
  return loss;
}

/** Takes the lock and has another process wait for it. */
async function contend(first: Locks, second: Locks, name: string) {
  const hold = await first.mutex(name).acquire();
  const loss = watchLoss(hold);
  const next = second
    .mutex(name)
    .acquire({ waitMs: 60_000 })
    .then((other) => ({ hold: other, at: performance.now() }));
  next.catch(() => {});
  return { hold, loss, next };
}

async function proxied(): Promise<{ proxy: FaultProxy; url: string }> {
  const proxy = await startFaultProxy(server.port);
  const url = new URL(stage.url);
  url.port = String(proxy.port);
  return { proxy, url: url.href };
}

/** Starts it again as a server that only follows. */
async function becomeStandby(primary: PostgresServer): Promise<void> {
  primary.kill('SIGINT');
  await primary.exited();
  writeFileSync(`${primary.dir}/data/standby.signal`, '');
  await primary.start();
}

describe('the session of advisory locks ends', () => {
  it('row 40: the loss of a terminated backend is reported at once, and the store continues', async () => {
    const [a, b] = [stage.locks(), stage.locks()];
    const other = await a.mutex('bystander').acquire();
    const { hold, loss, next } = await contend(a, b, 'terminated');
    const [pid] = await stage.sessionsWith('terminated');
    const at = performance.now();
    await stage.query('SELECT pg_terminate_backend($1)', [pid]);
    const taken = await next;
    await expect.poll(() => loss.at).not.toBeNull();
    // By its own clock it would know after five seconds at the earliest.
    expect((loss.at ?? 0) - at).toBeLessThan(4_500);
    expect(hold.signal.reason).toMatchObject({ code: 'HOLD_LOST', how: 'session' });
    expect(other.remainingMs).toBe(0);
    expect(taken.hold.fence).toBeGreaterThan(hold.fence);
    expect(await hold.release()).toBe(false);
    await taken.hold.release();
    (await a.mutex('terminated').acquire()).assertHeld();
  });

  it('row 40: the same over postgres.js', async () => {
    const sql = postgres(stage.url, { max: 1 });
    const locks = createLocks(postgresAdvisoryStore(sql), { waitMs: 30_000 });
    const hold = await locks.mutex('terminated js').acquire();
    const loss = watchLoss(hold);
    const at = performance.now();
    await stage.query('SELECT pg_terminate_backend($1)', await stage.sessionsWith('terminated js'));
    await expect.poll(() => loss.at).not.toBeNull();
    // By its own clock it would know after five seconds at the earliest.
    expect((loss.at ?? 0) - at).toBeLessThan(4_500);
    expect(hold.signal.reason).toMatchObject({ how: 'session' });
    (await locks.mutex('terminated js').acquire()).assertHeld();
    await locks.close({ drainMs: 0 });
    await sql.end();
  });

  it('row 40: time-outs that are set for the user do not end it', async () => {
    // Not for the user of the test, whose own statements could be late on a busy machine.
    await server.query('CREATE ROLE hasty SUPERUSER LOGIN');
    await server.query("ALTER ROLE hasty SET idle_session_timeout = '500ms'");
    await server.query("ALTER ROLE hasty SET statement_timeout = '800ms'");
    const url = stage.url.replace('postgres@', 'hasty@');
    const hold = await stage.locks({ store: { url } }).mutex('timeouts').acquire();
    await sleep(1_500);
    hold.assertHeld();
    expect(await stage.sessionsWith('timeouts')).toHaveLength(1);
    expect(await hold.release()).toBe(true);
  });

  it('row 40: a waiter whose session ends is woken, and enters the queue again', async () => {
    const [a, b] = [stage.store(), stage.store()];
    const held = request('line');
    await a.claim(held);
    const waiter = request('line', { wait: true });
    let told = 0;
    const wake = (): void => {
      told += 1;
    };
    await b.claim(waiter, undefined, { wake });
    const [holder] = await stage.sessionsWith('line');
    await stage.query(
      "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> $1",
      [holder],
    );
    await expect.poll(() => told).toBe(1);
    expect((await b.claim(waiter, undefined, { wake })).granted).toBe(false);
    await a.release(held);
    await expect.poll(() => told).toBeGreaterThan(1);
    expect((await b.claim(waiter)).granted).toBe(true);
  });

  it('row 40: the holder is woken when its session has ended, and no other holder is', async () => {
    const store = stage.store();
    const [lost, kept] = [request('listened to'), request('meanwhile')];
    const woken: string[] = [];
    const claim = (each: typeof lost) =>
      store.claim(each, undefined, { wake: () => void woken.push(each.name) });
    await claim(lost);
    const [pid] = await stage.sessionsWith(lost.name);
    await stage.query('SELECT pg_terminate_backend($1)', [pid]);
    await expect
      .poll(() => store.renew(lost, { ttlMs: 1_000 }).catch(() => null))
      .toEqual({ held: false, how: 'session' });
    expect(await claim(kept)).toMatchObject({ granted: true });
    await expect.poll(() => woken).toEqual([lost.name]);
  });

  it('row 44: an immediate restart loses every hold at once; waiters are granted later', async () => {
    const [a, b] = [stage.locks(), stage.locks()];
    const { hold, loss, next } = await contend(a, b, 'restarted');
    const at = performance.now();
    await server.restartImmediately();
    await expect.poll(() => loss.at).not.toBeNull();
    expect((loss.at ?? 0) - at).toBeLessThan(5_000);
    const taken = await next;
    expect(taken.hold.fence).toBeGreaterThan(hold.fence);
    expect(loss.at ?? 0).toBeLessThanOrEqual(taken.at);
  }, 30_000);

  it('row 40: a claim that is cut off at any moment leaves nothing, and the next one works', async () => {
    const { proxy, url } = await proxied();
    const store = stage.store({ url });
    for (let round = 0; round < 12; round += 1) {
      const wanted = request('cut');
      const asked = store.claim(wanted).catch((error: unknown) => error);
      await sleep(round % 4);
      proxy.cut();
      await asked;
      await store.release(wanted).catch(() => {});
      await expect.poll(() => stage.sessionsWith('cut')).toEqual([]);
    }
    await expect.poll(async () => (await store.claim(request('cut'))).granted).toBe(true);
    await store.close();
    await proxy.stop();
  }, 60_000);
});

describe('a pooler', () => {
  for (const mode of ['transaction', 'session'] as const) {
    it(`row 39: a pooler in ${mode} mode is refused with what to do, and nothing stays locked`, async () => {
      const pooler = await startPgbouncer({ port: server.port, mode, poolSize: 2 });
      const url = new URL(stage.url);
      url.port = String(pooler.port);
      const locks = stage.locks({ store: { url: url.href } });
      for (let tries = 0; tries < 2; tries += 1) {
        await expect(locks.mutex('pooled').acquire()).rejects.toMatchObject({
          code: 'UNSUPPORTED',
          message: expect.stringContaining('postgresLeaseStore'),
        });
      }
      await expect.poll(() => stage.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'")).toEqual([]);
      await pooler.stop();
    });
  }

  it('row 39: that reports the right process id is detected by the locks of the shared session', async () => {
    const pooler = await startPgbouncer({ port: server.port, mode: 'transaction', poolSize: 1 });
    const pooled = new URL(stage.url);
    pooled.port = String(pooler.port);
    const connect = await connectionFactoryFromUrl(pooled.href);
    const look = connect({ onNotification() {}, onClose() {} });
    await look.connect();
    const [row] = await look.run({ text: 'SELECT pg_backend_pid()::text' });
    await look.close();
    const disguised: ConnectionFactory = (hearing) =>
      new Proxy(connect(hearing), {
        get: (driver, name) => {
          if (name === 'processId') return Number(row?.[0]);
          const value: unknown = Reflect.get(driver, name, driver);
          return typeof value === 'function' ? value.bind(driver) : value;
        },
      });
    const [a, b] = [new AdvisoryStore(disguised, {}), new AdvisoryStore(disguised, {})];
    expect((await a.claim(request('disguised'))).granted).toBe(true);
    await expect(b.claim(request('disguised'))).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    await Promise.all([a.close(), b.close()]);
    await pooler.stop();
  });

  it('row 39: that changes the server process is detected by the next statement', async () => {
    const connect = await connectionFactoryFromUrl(stage.url);
    let isSwitched = false;
    const switching: ConnectionFactory = (hearing) => {
      const [first, second] = [connect(hearing), connect({ onNotification() {}, onClose() {} })];
      const connected = second.connect();
      return new Proxy(first, {
        get: (driver, name) => {
          if (name === 'run' && isSwitched)
            return async (statement: Statement) => await connected.then(() => second.run(statement));
          const value: unknown = Reflect.get(driver, name, driver);
          return typeof value === 'function' ? value.bind(driver) : value;
        },
      });
    };
    const store = new AdvisoryStore(switching, {});
    const held = request('switched');
    let told = 0;
    const wake = (): void => {
      told += 1;
    };
    await store.claim(held, undefined, { wake });
    isSwitched = true;
    await expect(store.claim(request('other'))).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
    expect(told).toBe(1);
    isSwitched = false;
    expect(await store.renew(held, { ttlMs: 1_000 })).toEqual({ held: false, how: 'session' });
    await store.close();
    await stage.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast'",
    );
  });

  it('row 44: a hot standby is refused, also one that a URL points to from now on', async () => {
    const standby = await startPostgres();
    const other = await AdvisoryStage.on(standby);
    const locks = other.locks();
    const hold = await locks.mutex('primary').acquire();
    const loss = watchLoss(hold);
    await becomeStandby(standby);
    await expect.poll(() => loss.at).not.toBeNull();
    await expect(locks.mutex('standby').tryAcquire()).rejects.toMatchObject({
      code: 'STORE',
      applied: 'no',
      message: expect.stringContaining('standby'),
    });
    await other.end();
    await standby.stop();
  }, 60_000);
});
