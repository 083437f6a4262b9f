import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { afterEach, describe, expect, it } from 'vitest';
import type { Hold, Locks } from '../../../src/index.ts';
import { startStage } from '../../redis/support/stage.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';

const stage = await useStage(startStage());
afterEach(async () => {
  for (const { end } of REFUSALS) await end(stage.admin);
});

/** A server sends messages even while it refuses writes. */
const REFUSALS = [
  {
    what: 'too few replicas',
    begin: (admin: Redis) => admin.config('SET', 'min-replicas-to-write', '1'),
    end: (admin: Redis) => admin.config('SET', 'min-replicas-to-write', '0'),
  },
  {
    what: 'a master that has become a replica',
    begin: (admin: Redis) => admin.call('REPLICAOF', '127.0.0.1', '1'),
    end: (admin: Redis) => admin.call('REPLICAOF', 'NO', 'ONE'),
  },
];

/** By both paths of the script. */
const KINDS: Array<[string, (locks: Locks, name: string) => Promise<Hold>]> = [
  ['mutex', (locks, name) => locks.mutex(name).acquire()],
  ['mutex with a note', (locks, name) => locks.mutex(name).acquire({ metadata: { a: 1 } })],
  ['semaphore', (locks, name) => locks.semaphore(name, { permits: 1 }).acquire()],
];

describe.each(REFUSALS)('a server that refuses writes: $what', ({ begin, end }) => {
  it.each(KINDS)('pushes no grant of a %s, and works again afterwards', async (kind, acquire) => {
    const { admin, server } = stage;
    const [holder, waiter] = [
      await stage.locks('ioredis', server.url),
      await stage.locks('ioredis', server.url),
    ];
    const name = `refused ${kind}`;
    // So that the waiter is subscribed, and would be sent the whole grant.
    const warm = await acquire(holder, 'warm');
    const warmed = later(acquire(waiter, 'warm'));
    await eventually('it waits', async () => (await holder.inspect('warm')).waiters.length === 1);
    await warm.release();
    await (await warmed).release();

    const hold = await acquire(holder, name);
    let granted = false;
    const pending = later(acquire(waiter, name));
    pending.then(
      () => {
        granted = true;
      },
      () => {},
    );
    await eventually('it waits', async () => (await holder.inspect(name)).waiters.length === 1);
    await begin(admin);
    const releasing = later(hold.release());
    await sleep(300);
    expect(granted).toBe(false);
    await end(admin);
    await releasing;
    const next = await pending;
    expect(next.fence).toBeGreaterThan(hold.fence);
    expect((await holder.inspect(name)).holders.map(({ id }) => id)).toEqual([next.id]);
    expect(await next.release()).toBe(true);
  });
});
