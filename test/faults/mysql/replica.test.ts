import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLocks, type Locks } from '../../../src/index.ts';
import { mysqlStore } from '../../../src/stores/mysql/index.ts';
import { leaseStore } from '../../../src/stores/mysql/mysql-server.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { isStoreError } from '../../../src/util/error-code.ts';
import { request } from '../../mysql/support/lease-stage.ts';
import { ReplicatedStage } from '../../mysql/support/replica.ts';
import { serverClock } from '../../support/servers/server-clock.ts';
import { eventually } from '../../support/waiting/eventually.ts';
import { renewed } from '../../support/waiting/renewed.ts';

/** The first answer, of as many requests as it takes: those that fail have done nothing. */
async function answerOf<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!isStoreError(error) || error.applied !== 'no') throw error;
    }
  }
}

describe('a proxy that sends reads to a replica', () => {
  it('whose replica is behind ends no hold, and every release finds its claim', async () => {
    await using stage = await ReplicatedStage.start();
    const store = leaseStore(stage.splitting, {});
    await stage.primary.store().read('makes the tables');
    await stage.caughtUp();
    await stage.fallBehind();
    // A shared claim is renewed and released by reading its row first, which the replica does not have.
    const mode = { kind: 'shared' } as const;
    const [kept, released] = [request('kept', { mode }), request('released', { mode })];
    await Promise.all([store.claim(kept), store.claim(released)]);
    const answers = Promise.all([
      answerOf(() => store.renew(kept, { ttlMs: 60_000 })),
      answerOf(() => store.release(released)),
    ]);
    await sleep(200);
    await stage.catchUp();
    expect(await answers).toEqual([expect.objectContaining({ held: true }), true]);
    await store.close();
  }, 60_000);
});

describe('a failover to a replica', () => {
  const clock = serverClock(async () => {
    const [row] = await stage.replica.query<{ at: number }>('SELECT UNIX_TIMESTAMP(SYSDATE(6)) AS at');
    return Number(row?.at);
  });
  let stage: ReplicatedStage;
  let proxy: FaultProxy;
  let port: number;
  const opened: Locks[] = [];
  /** Over an address that leads to the primary, whichever server that is. */
  const locks = (): Locks => {
    const url = stage.primary.url.replace(`:${stage.primary.server.port}/`, `:${proxy.port}/`);
    const own = createLocks(mysqlStore(stage.primary.pool(url)), { ttlMs: 20_000, waitMs: 30_000 });
    opened.push(own);
    return own;
  };
  beforeAll(async () => {
    stage = await ReplicatedStage.start(clock.env);
    port = stage.primary.server.port;
    proxy = await startFaultProxy(() => port);
  });
  afterAll(async () => {
    await Promise.all(opened.map((each) => each.close({ drainMs: 0 })));
    await proxy.stop();
    await stage[Symbol.asyncDispose]();
  });

  it('keeps the holds that it has, and notifies holders whose grant it lost', async () => {
    const [holder, stranger] = [locks(), locks()];
    const kept = await holder.mutex('kept').acquire();
    await stage.caughtUp();
    await stage.fallBehind();
    const lost = await holder.mutex('lost').acquire();
    await clock.set(-3_600);
    await stage.failOver();
    port = stage.replica.server.port;
    proxy.cut();
    await renewed(kept);
    await eventually('the holder of the lost grant is told', () => lost.signal.aborted);
    expect(lost.signal.reason).toMatchObject({ code: 'HOLD_LOST' });
    // The clock of the new primary is behind, and its row of the lock is gone.
    const byStranger = await stranger.mutex('lost').acquire();
    expect(byStranger.fence).toBeLessThan(lost.fence);
    await byStranger.release();
    // A process that has seen the greater fence asks for one above it.
    const again = await holder.mutex('lost').acquire();
    expect(again.fence).toBeGreaterThan(lost.fence);
    await again.release();
    expect(await kept.release()).toBe(true);
    const next = await stranger.mutex('kept').acquire();
    expect(next.fence).toBeGreaterThan(kept.fence);
    await next.release();
  }, 60_000);
});
