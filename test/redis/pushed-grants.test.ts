import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LIBRARIES } from '../support/clients/redis-clients.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { startStage } from './support/stage.ts';

const stage = await useStage(startStage());

const claims = async (): Promise<number> => {
  const scripts = await stage.admin.info('commandstats');
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(scripts)?.[1] ?? 0);
};

describe.each(LIBRARIES)('a grant that comes as a message, under %s', (library) => {
  it.each([true, false])('is confirmed for the whole lease, with renew: %s', async (renew) => {
    const name = `pushed-${library}-${renew}`;
    const [holder, locks] = await Promise.all([
      stage.locks(library, stage.server.url),
      stage.locks(library, stage.server.url),
    ]);
    // It is subscribed now.
    await locks.mutex(`${name}-warm`).run(async () => {
      const waiter = later(locks.mutex(`${name}-warm`).acquire({ waitMs: 300 }));
      await waiter.catch(() => {});
    });
    const first = await holder.mutex(name).acquire();
    const pending = later(locks.mutex(name).acquire({ ttlMs: 12_000, renew }));
    await eventually('it waits', async () => (await holder.inspect(name)).waiters.length === 1);
    await first.release();
    const hold = await pending;
    // An unconfirmed grant lasts no longer than this.
    expect(hold.remainingMs).toBeLessThanOrEqual(5_000);
    await eventually('it is confirmed', () => hold.remainingMs > 10_000, 3_000);
    expect(await stage.admin.pttl(`holdfast:${name}`)).toBeGreaterThan(10_000);
    await sleep(5_500);
    hold.assertHeld();
    expect(await hold.release()).toBe(true);
  });

  it('takes one claim and one release in all', async () => {
    const name = `counted-${library}`;
    const holder = await stage.locks(library, stage.server.url);
    const locks = await stage.locks(library, stage.server.url);
    await locks.mutex(`${name}-warm`).run(async () => {
      await later(locks.mutex(`${name}-warm`).acquire({ waitMs: 300 })).catch(() => {});
    });
    const first = await holder.mutex(name).acquire();
    const before = await claims();
    const pending = later(locks.mutex(name).acquire());
    await eventually('it waits', async () => (await stage.admin.zcard(`holdfast:\u0001queue:${name}`)) === 1);
    await sleep(300);
    expect(await claims()).toBe(before + 1);
    await first.release();
    const hold = await pending;
    // The holder has released; the waiter has sent nothing.
    expect(await claims()).toBe(before + 2);
    await hold.release();
    expect(await claims()).toBe(before + 3);
  });
});
