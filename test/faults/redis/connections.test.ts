import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import { redisStore } from '../../../src/stores/redis/index.ts';
import { type Stage, startStage } from '../../redis/support/stage.ts';
import { eventually, later, renewals } from '../../support/patience.ts';
import { LIBRARIES, openClient } from '../../support/redis-clients.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await startStage();
});
afterEach(() => stage.proxy.pass());
afterAll(() => stage[Symbol.asyncDispose]());

describe.each(LIBRARIES)('connections that break, under %s', (library) => {
  it('what others publish where a line is listened to disturbs nobody', async () => {
    const name = `published-${library}`;
    const [a, b] = await Promise.all([1, 2].map(() => stage.locks(library, stage.server.url)));
    const hold = await a?.mutex(name).acquire();
    const waiting = b && later(b.mutex(name).acquire());
    await eventually('it stands', async () => (await a?.inspect(name))?.waiters.length === 1);
    const [waiter] = (await a?.inspect(name))?.waiters ?? [];
    const told = ['', 'g', 'o', '\n\n\n', `g\nholdfast:${name}\n${waiter?.id}\nnone\nnever`];
    for (const channel of (await stage.admin.call('PUBSUB', 'CHANNELS')) as string[])
      for (const message of told) await stage.admin.publish(channel, message);
    await hold?.release();
    const next = await waiting;
    expect(next?.fence).toBeGreaterThan(hold?.fence ?? 0n);
    await next?.release();
  });

  it('row 22: CLIENT KILL in mid-hold loses nothing', async () => {
    const { admin } = stage;
    const locks = await stage.locks(library, stage.server.url, { ttlMs: 10_000, renewEveryMs: 250 });
    const hold = await locks.mutex(`kill-${library}`).acquire();
    for (let n = 0; n < 4; n += 1) {
      await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await renewals(locks, 2);
    }
    hold.assertHeld();
    expect(await hold.release()).toBe(true);
  });

  it('row 23: CLIENT PAUSE shorter than the lease is waited out, a longer one loses the hold in time', async () => {
    const { admin } = stage;
    const locks = await stage.locks(library, stage.server.url);
    const long = await locks.mutex(`pause-long-${library}`).acquire({ ttlMs: 10_000 });
    const short = await locks.mutex(`pause-short-${library}`).acquire({ ttlMs: 900 });
    await admin.call('CLIENT', 'PAUSE', '1800', 'ALL');
    const during = later(locks.mutex(`pause-new-${library}`).acquire());
    await sleep(1_000);
    expect(() => short.assertHeld()).toThrow(expect.objectContaining({ how: 'expired' }));
    const held = await during;
    long.assertHeld();
    expect(await long.release()).toBe(true);
    expect(await held.release()).toBe(true);
    const again = await locks.mutex(`pause-short-${library}`).acquire();
    expect(again.fence).toBeGreaterThan(short.fence);
    await again.release();
  });

  it('row 24: SCRIPT FLUSH at any time is not seen', async () => {
    const { admin } = stage;
    const locks = await stage.locks(library, stage.server.url);
    for (let n = 0; n < 50; n += 1) {
      if (n % 3 === 0) await admin.script('FLUSH');
      const flush = n % 3 === 1 ? admin.script('FLUSH') : null;
      const hold = await locks.mutex(`flush-${library}`).acquire();
      await hold.extend();
      expect(await hold.release()).toBe(true);
      await flush;
    }
    await admin.script('FLUSH');
    expect((await locks.inspect(`flush-${library}`)).holders).toEqual([]);
  });

  it('row 34: a wake-up that was lost in a reconnect costs a moment, and not the place in line', async () => {
    const { admin } = stage;
    const holder = await stage.locks(library, stage.server.url);
    const waiter = await stage.locks(library, stage.server.url);
    const name = `wake-${library}`;
    const hold = await holder.mutex(name).acquire();
    const pending = later(waiter.mutex(name).acquire());
    await eventually('it waits and listens', async () => {
      const numbers = await admin.call('CLIENT', 'LIST', 'TYPE', 'pubsub');
      return String(numbers).includes('sub=1') && (await holder.inspect(name)).waiters.length === 1;
    });
    await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await hold.release();
    const startedMs = performance.now();
    const next = await pending;
    // Long before what was left of the hold in front.
    expect(performance.now() - startedMs).toBeLessThan(12_000);
    await next.release();
  });
});

it.each(LIBRARIES)(
  'row 34: a connection that breaks while it subscribes is listened to all the same, under %s',
  async (library) => {
    const { admin, proxy, proxyUrl, server } = stage;
    const { client, close } = await openClient(library, proxyUrl);
    onTestFinished(close);
    const subject = client as unknown as {
      duplicate(options: object): { subscribe(...args: unknown[]): unknown };
    };
    const duplicate = subject.duplicate.bind(client);
    let channel: unknown = null;
    subject.duplicate = (options) => {
      const subscriber = duplicate(options);
      const subscribe = subscriber.subscribe.bind(subscriber);
      subscriber.subscribe = (...args) => {
        if (channel === null) {
          proxy.drop('toServer');
          setTimeout(() => void proxy.pass(), 200);
        }
        [channel] = args;
        return subscribe(...args);
      };
      return subscriber;
    };
    const isHeard = async (): Promise<boolean> =>
      channel !== null &&
      Number(((await admin.call('PUBSUB', 'NUMSUB', `${channel}`)) as unknown[])[1]) === 1;
    const waiter = createLocks(redisStore(client), { waitMs: 20_000 });
    const holder = await stage.locks(library, server.url);
    const hold = await holder.mutex(`cut-${library}`).acquire();
    const pending = later(waiter.mutex(`cut-${library}`).acquire());
    await eventually('it listens', isHeard);
    await hold.release();
    await (await pending).release();
    await waiter.close();
  },
);

it('row 34: a subscriber on a dead link costs no more than what is left of the hold in front', async () => {
  const { server, proxy, proxyUrl } = stage;
  const client = new Redis(server.url);
  onTestFinished(() => client.disconnect());
  // Only the listening connection goes through the proxy.
  client.duplicate = ((options: object) => new Redis(proxyUrl, options)) as typeof client.duplicate;
  const waiter = createLocks(redisStore(client), { waitMs: 20_000 });
  const holder = await stage.locks('ioredis', server.url);
  const hold = await holder.mutex('deaf').acquire({ ttlMs: 3_000 });
  const pending = later(waiter.mutex('deaf').acquire());
  await eventually('it listens', () => proxy.connections === 1);
  await eventually('it waits', async () => (await holder.inspect('deaf')).waiters.length === 1);
  await sleep(200);
  proxy.drop('both');
  await hold.release();
  const startedMs = performance.now();
  const next = await pending;
  expect(performance.now() - startedMs).toBeLessThan(10_000);
  expect(next.remainingMs).toBeGreaterThan(15_000);
  await next.release();
  proxy.pass();
  await waiter.close();
});
