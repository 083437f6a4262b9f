import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool, PoolConnection } from 'mysql2/promise';
import { beforeAll, describe, expect, it } from 'vitest';
import { LeaseStage, request } from '../../mysql/support/lease-stage.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';
import { renewed } from '../../support/waiting/renewed.ts';

const stage = await useStage(LeaseStage.start());
beforeAll(async () => {
  await stage.addUser('app');
});

/** A transaction that has locked the rows of these locks, in this order. */
async function lockRows(pool: Pool, ...names: string[]): Promise<PoolConnection> {
  const connection = await pool.getConnection();
  await connection.beginTransaction();
  for (const name of names)
    await connection.query('SELECT 1 FROM holdfast_locks WHERE name = ? FOR UPDATE', [name]);
  return connection;
}

describe('a server that restarts', () => {
  it('keeps its holds, and serves its waiters', async () => {
    const [locks, others] = [stage.locks({ ttlMs: 15_000 }), stage.locks({ ttlMs: 15_000 })];
    const hold = await locks.mutex('restart').acquire();
    const waiting = later(others.mutex('restart').acquire());
    await eventually('one waits', async () => (await locks.inspect('restart')).waiters.length === 1);
    await stage.server.restartImmediately();
    await renewed(hold);
    expect(hold.signal.aborted).toBe(false);
    await hold.release();
    const next = await waiting;
    expect(next.fence).toBeGreaterThan(hold.fence);
    await next.release();
  }, 40_000);
});

describe('statements', () => {
  it('that are the victim of a deadlock have done nothing, and are sent again', async () => {
    const [store, admin] = [stage.store({ connections: 1 }), stage.admin];
    const held = ['dead-a', 'dead-b'].map((name) => request(name, { mode: { kind: 'shared' } }));
    await Promise.all(held.map((claim) => store.claim(claim)));
    const [before] = await stage.query<{ Value: string }>("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'");
    await stage.query('CREATE TABLE ballast (n INT PRIMARY KEY)');
    const other = await lockRows(admin, 'dead-b');
    // It has changed more than we have, so that our statement is the one that is rolled back.
    await other.query('INSERT INTO ballast SELECT seq FROM seq_1_to_500');
    const more = ['dead-a', 'dead-b'].map((name) => request(name, { mode: { kind: 'shared' } }));
    const claimed = Promise.all(more.map((claim) => store.claim(claim)));
    await eventually('our statement waits for the row', async () => {
      // The server refreshes this table only when it was not read for 100 ms.
      await sleep(150);
      const [row] = await stage.query<{ n: number }>(
        "SELECT COUNT(*) AS n FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'",
      );
      return Number(row?.n) === 1;
    });
    await other.query('SELECT 1 FROM holdfast_locks WHERE name = ? FOR UPDATE', ['dead-a']);
    const [after] = await stage.query<{ Value: string }>("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'");
    expect(Number(after?.Value)).toBe(Number(before?.Value) + 1);
    await other.rollback();
    other.release();
    expect((await claimed).map(({ granted }) => granted)).toEqual([true, true]);
  });

  it('that find the row locked for long have done nothing, and say so', async () => {
    const store = stage.store();
    const claim = request('row-locked');
    await store.claim(claim);
    const other = await lockRows(stage.admin, 'row-locked');
    await expect(store.renew(claim, { ttlMs: 60_000 })).rejects.toMatchObject({
      code: 'STORE',
      applied: 'no',
    });
    // Reading waits for no lock.
    expect(await store.read('row-locked')).toHaveLength(1);
    await other.rollback();
    other.release();
    expect(await store.renew(claim, { ttlMs: 60_000 })).toMatchObject({ held: true });
  }, 15_000);

  it('that make a row wait for one that raises the floor of fences', async () => {
    const store = stage.store();
    const other = await stage.admin.getConnection();
    await other.beginTransaction();
    await other.query('UPDATE holdfast_floor SET fence = ?', [`${2n ** 61n}`]);
    const claimed = store.claim(request('above-the-floor'));
    const first = await Promise.race([claimed, sleep(400)]);
    expect(first).toBeUndefined();
    await other.commit();
    other.release();
    const outcome = await claimed;
    expect(outcome.granted && outcome.fence > 2n ** 61n).toBe(true);
  });

  it('whose connection is killed at any time are never granted twice', async () => {
    const locks = Array.from({ length: 3 }, () => stage.locks({ url: stage.urlOf('app'), ttlMs: 10_000 }));
    let isOver = false;
    let killed = 0;
    const killing = (async () => {
      for (let rounds = 1; !isOver; rounds += 1) {
        const rows = await stage.query<{ ID: number }>(
          "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'app'",
        );
        for (const { ID } of rows)
          killed += await stage.query(`KILL ${ID}`).then(
            () => 1,
            () => 0,
          );
        // A busy machine may need more than the short times for one statement.
        await sleep(rounds % 4 === 0 ? 500 : 80);
      }
    })();
    let inside = 0;
    let most = 0;
    const fences: bigint[] = [];
    const worker = async (each: (typeof locks)[number]): Promise<void> => {
      for (let n = 0; n < 6; n += 1) {
        const hold = await each.mutex('killed').acquire();
        inside += 1;
        most = Math.max(most, inside);
        fences.push(hold.fence);
        await sleep(1);
        inside -= 1;
        await hold.release().catch(() => false);
      }
    };
    await Promise.all(locks.map(worker));
    isOver = true;
    await killing;
    expect(most).toBe(1);
    expect(fences).toEqual([...new Set(fences)].sort((a, b) => (a < b ? -1 : 1)));
    expect(killed).toBeGreaterThan(2);
  }, 40_000);

  it('are sent again on a new connection after wait_timeout has closed the old ones', async () => {
    await stage.query('SET GLOBAL wait_timeout = 1');
    try {
      const store = stage.store();
      for (const name of ['idle-1', 'idle-2', 'idle-3']) {
        expect(await store.claim(request(name))).toMatchObject({ granted: true });
        await sleep(1_300);
      }
    } finally {
      await stage.query('SET GLOBAL wait_timeout = 28800');
    }
  });
});

describe('a server that has become read only, as after a failover', () => {
  it('refuses with the reason, ends no hold, and is used again once it can be written', async () => {
    const locks = stage.locks({ url: stage.urlOf('app'), ttlMs: 30_000 });
    const hold = await locks.mutex('failover').acquire();
    await stage.query('SET GLOBAL read_only = 1');
    await expect(locks.mutex('other').acquire({ waitMs: 600 })).rejects.toMatchObject({
      code: 'STORE',
      applied: 'no',
      message: expect.stringContaining('read only'),
    });
    await expect(hold.extend()).rejects.toMatchObject({ code: 'STORE' });
    expect(hold.signal.aborted).toBe(false);
    await stage.query('SET GLOBAL read_only = 0');
    await eventually('it can be extended again', () =>
      hold.extend().then(
        () => true,
        () => false,
      ),
    );
    expect(await hold.release()).toBe(true);
  }, 30_000);
});

describe.each(['READ-UNCOMMITTED', 'READ-COMMITTED', 'REPEATABLE-READ', 'SERIALIZABLE'])('at %s', (level) => {
  it('two stores never hold at once, and no update is lost', async () => {
    await stage.query(`SET GLOBAL tx_isolation = '${level}'`);
    const url = await stage.server.createDatabase();
    const locks = Array.from({ length: 3 }, () => stage.locks({ url }));
    let count = 0;
    const work = async (each: (typeof locks)[number], name: string): Promise<void> => {
      for (let n = 0; n < 3; n += 1) {
        await each.mutex(name).run(async () => {
          const before = count;
          await sleep(1);
          count = before + 1;
        });
      }
    };
    await Promise.all(locks.flatMap((each) => [work(each, 'one'), work(each, 'one')]));
    expect(count).toBe(18);
    await Promise.all(locks.map((each) => each.close()));
  }, 30_000);
});
