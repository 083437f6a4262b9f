import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { type Stage, startRedlockStage } from '../../redlock/support/stage.ts';
import { LIBRARIES } from '../../support/clients/redis-clients.ts';
import { worksAgain } from '../../support/outage/callers.ts';
import { eventually } from '../../support/waiting/eventually.ts';

/** How many keys all nodes have written: two for each grant. */
async function keysWritten({ admins }: Stage): Promise<number> {
  let calls = 0;
  for (const admin of admins) {
    const info = await admin.info('commandstats');
    for (const [, count] of info.matchAll(/cmdstat_set:calls=(\d+)/g)) calls += Number(count);
  }
  return calls;
}

it.concurrent.each(LIBRARIES)(
  'under %s, claims that were given up while no node could be reached are not sent when they are back',
  async (library) => {
    await using stage = await startRedlockStage(3);
    const { locks, proxies, isConnected } = await stage.process({ ttlMs: 60_000 }, library);
    await locks.mutex('warm').run(() => {});
    const before = await keysWritten(stage);
    for (const proxy of proxies) {
      proxy.refuse();
      proxy.cut();
    }
    // Until then a client takes commands, and it may send again by itself what it has taken.
    await eventually('every client has noticed', () => !isConnected());
    const controller = new AbortController();
    const claims = Array.from({ length: 200 }, (_, n) =>
      locks.mutex(`given up ${n}`).acquire({ signal: controller.signal }),
    );
    await sleep(20);
    controller.abort(new Error('enough'));
    for (const outcome of await Promise.allSettled(claims))
      expect(outcome).toMatchObject({ status: 'rejected', reason: { message: 'enough' } });
    for (const proxy of proxies) proxy.pass();
    await worksAgain(locks, 'after');
    await sleep(1_000);
    // Written by the lock that was acquired last, which may have taken a few attempts.
    expect((await keysWritten(stage)) - before).toBeLessThanOrEqual(3 * 10);
    for (let n = 0; n < 200; n += 1) expect(await stage.keys(`given up ${n}`)).toBe(0);
  },
  60_000,
);
