import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import { redisStore } from '../../../src/stores/redis/index.ts';
import { startStage } from '../../redis/support/stage.ts';
import { LIBRARIES, openClient, PREVIOUS_LIBRARIES } from '../../support/clients/redis-clients.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { callers, worksAgain } from '../../support/outage/callers.ts';
import { eventually, later, renewals } from '../../support/waiting/eventually.ts';

const stage = await useStage(startStage());
afterEach(() => stage.proxy.pass());

describe.each(LIBRARIES)('connections that break, under %s', (library) => {
  it('messages of other programs on our channel do no harm', async () => {
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

  it('row 23: a hold survives a CLIENT PAUSE that is shorter than its lease only', async () => {
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

  it('row 24: SCRIPT FLUSH at any time has no effect', async () => {
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

  it('row 34: a wake-up that is lost in a reconnect costs a moment, and not the queue position', async () => {
    const { admin } = stage;
    const holder = await stage.locks(library, stage.server.url);
    const waiter = await stage.locks(library, stage.server.url);
    const name = `wake-${library}`;
    const hold = await holder.mutex(name).acquire();
    const pending = later(waiter.mutex(name).acquire());
    await eventually('it waits and listens', async () => {
      const numbers = await admin.call('CLIENT', 'LIST', 'TYPE', 'pubsub');
      return / sub=[1-9]/.test(String(numbers)) && (await holder.inspect(name)).waiters.length === 1;
    });
    await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await hold.release();
    const startedMs = performance.now();
    const next = await pending;
    // Long before the hold in front would have expired.
    expect(performance.now() - startedMs).toBeLessThan(12_000);
    await next.release();
  });
});

it.each([...LIBRARIES, ...PREVIOUS_LIBRARIES])(
  'a connection that breaks while commands are written to it works again at once, under %s',
  async (library) => {
    const { proxy, proxyUrl } = stage;
    const { client, close } = await openClient(library, proxyUrl);
    const locks = createLocks(redisStore(client), { waitMs: 20_000 });
    const end = callers(locks, 10, 5);
    onTestFinished(async () => {
      await end();
      await locks.close({ drainMs: 0 });
      close();
    });
    for (let cuts = 0; cuts < 20; cuts += 1) {
      // The connection stays open while packets are dropped, so commands are sent until it is cut.
      proxy.drop('both');
      await sleep(20);
      proxy.pass();
      await worksAgain(locks, `cut-${library}-${cuts}`);
    }
  },
);

it.each(LIBRARIES)(
  'row 34: a subscriber that is cut off while it subscribes subscribes again, under %s',
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
        [channel] = args.flat();
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

it('row 34: a dead subscriber connection costs no more than the rest of the current lease', async () => {
  const { server, proxy, proxyUrl } = stage;
  const client = new Redis(server.url);
  onTestFinished(() => client.disconnect());
  // Only the subscriber goes through the proxy.
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
