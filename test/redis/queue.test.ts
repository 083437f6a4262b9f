import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { createLocks } from '../../src/index.ts';
import { type RedisClient, redisStore } from '../../src/stores/redis/index.ts';
import { LIBRARIES, openClient } from '../support/clients/redis-clients.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { startStage } from './support/stage.ts';
import { startWorker, stopWorkers } from './support/workers.ts';

const stage = await useStage(startStage());
afterEach(async () => {
  stopWorkers();
  await stage.leaveAll();
});

/** The scripts that were called, by their SHA. */
let scripts: unknown[] = [];
let isLate = false;

/** A client that holds back the replies of scripts while `isLate`, but not messages. */
function late(client: RedisClient, until: () => Promise<void>): RedisClient {
  const send = async (sent: Promise<unknown>, command: readonly unknown[]): Promise<unknown> => {
    scripts.push(command[1]);
    const waits = isLate;
    const answer = await sent;
    if (waits) await until();
    return answer;
  };
  return new Proxy(client, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== 'function') return value;
      if (key !== 'call' && key !== 'sendCommand') return value.bind(target);
      return (...args: unknown[]) => send(value.apply(target, args), args.flat());
    },
  });
}

/** A wait begins with a claim. */
const claims = (): unknown[] => scripts.filter((sha) => sha === scripts[0]);

/** How many connections are subscribed at the server. */
const listening = async (): Promise<number> =>
  String(await stage.admin.call('CLIENT', 'LIST', 'TYPE', 'pubsub'))
    .split('\n')
    .filter(Boolean).length;

/** The server may learn of a connection that was closed in an earlier test only now. */
const nobodyListens = (): Promise<void> =>
  eventually('nobody listens', async () => (await listening()) === 0);

const commandsProcessed = async (): Promise<number> =>
  Number(/total_commands_processed:(\d+)/.exec(await stage.admin.info('stats'))?.[1]);

describe.each(LIBRARIES)('the queue, under %s', (library) => {
  it('is served in order of arrival across processes, and each waiter is woken once', async () => {
    const name = `order-${library}`;
    const sides = await Promise.all([1, 2, 3].map(() => stage.locks(library, stage.server.url)));
    const hold = await sides[0]?.mutex(name).acquire();
    const served: number[] = [];
    const waiters: Promise<void>[] = [];
    for (let n = 0; n < 12; n += 1) {
      const locks = sides[n % 3];
      waiters.push(
        later(
          (locks as NonNullable<typeof locks>).mutex(name).run(() => {
            served.push(n);
          }),
        ),
      );
      await eventually('it stands', async () => (await sides[0]?.inspect(name))?.waiters.length === n + 1);
    }
    await hold?.release();
    await Promise.all(waiters);
    expect(served).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect((await stage.admin.keys('*')).filter((key) => key.includes(name))).toEqual([]);
  });

  it('takes one claim of a waiter, which also receives a grant that comes before the reply', async () => {
    const name = `early-${library}`;
    const holder = await stage.locks(library, stage.server.url);
    const { client, close } = await openClient(library, stage.server.url);
    let held = Promise.resolve();
    const locks = createLocks(redisStore(late(client, () => held)), { ttlMs: 30_000, waitMs: 20_000 });
    const waitOnce = async (): Promise<void> => {
      scripts = [];
      const first = await holder.mutex(`${name}-warm`).acquire();
      const warm = later(locks.mutex(`${name}-warm`).run(() => {}));
      await eventually('it waits', async () => (await holder.inspect(`${name}-warm`)).waiters.length === 1);
      await first.release();
      await warm;
    };
    // Checks the server and loads the scripts.
    await waitOnce();
    // A waiter that is not subscribed yet claims once more.
    do await waitOnce();
    while (claims().length > 1);
    const grantEarly = async (lock: string): Promise<number> => {
      let pass = (): void => {};
      held = new Promise<void>((resolve) => {
        pass = resolve;
      });
      const hold = await holder.mutex(lock).acquire();
      scripts = [];
      isLate = true;
      const startedMs = performance.now();
      const waiter = later(locks.mutex(lock).acquire());
      await eventually('it waits', async () => (await holder.inspect(lock)).waiters.length === 1);
      // It is granted while the reply to its claim is still on its way.
      await hold.release();
      await eventually('it holds', async () => (await holder.inspect(lock)).holders.length === 1);
      await sleep(50);
      isLate = false;
      pass();
      const granted = await waiter;
      const tookMs = performance.now() - startedMs;
      sent = { claims: claims().length, scripts: scripts.length };
      await granted.release();
      return tookMs;
    };
    let sent = { claims: 0, scripts: 0 };
    // Only a claim that entered within the last second is sent its grant.
    for (let round = 0; (await grantEarly(`${name}-${round}`)) >= 1_000; ) round += 1;
    // The pushed grant is confirmed after 100 ms, by another script.
    expect(sent.claims).toBe(1);
    expect(sent.scripts).toBeLessThanOrEqual(2);
    await locks.close();
    close();
  });

  it('uses one subscriber connection for each process, however many claims wait', async () => {
    const { client, close } = await openClient(library, stage.server.url);
    await nobodyListens();
    const store = redisStore(client);
    const locks = createLocks(store);
    const holds = await Promise.all(Array.from({ length: 20 }, (_, n) => locks.mutex(`one-${n}`).acquire()));
    expect(await listening()).toBe(0);
    const waiters = Array.from({ length: 100 }, (_, n) => later(locks.mutex(`one-${n % 20}`).run(() => n)));
    await eventually('they listen', async () => (await listening()) > 0);
    await sleep(100);
    expect(await listening()).toBe(1);
    await Promise.all(holds.map((hold) => hold.release()));
    expect((await Promise.all(waiters)).length).toBe(100);
    await locks.close();
    await eventually('it is closed with the store', async () => (await listening()) === 0);
    // The client belongs to the user, so it stays open.
    expect((await openAgain(client)).toUpperCase()).toBe('PONG');
    close();
  });
});

async function openAgain(client: unknown): Promise<string> {
  const { ping } = client as { ping(): Promise<string> };
  return await ping.call(client);
}

it('dead waiters are skipped at once: the server knows that they are not subscribed', async () => {
  const name = 'dead-waiters';
  await nobodyListens();
  const locks = await stage.locks('ioredis', stage.server.url);
  const hold = await locks.mutex(name).acquire();
  const workers = [1, 2, 3].map(() => startWorker(stage.server.url, 'hold', name));
  await eventually('they wait', async () => (await locks.inspect(name)).waiters.length === 3);
  const pending = later(locks.mutex(name).acquire());
  await stage.reachable(name, 4);
  for (const worker of workers) worker.kill('SIGKILL');
  await Promise.all(workers.map((worker) => worker.exited));
  await eventually('the server has noticed', async () => (await listening()) === 1);
  await hold.release();
  // A waiter that may still answer would hold it for seconds.
  const { holders } = await locks.inspect(name);
  const next = await pending;
  expect(holders.map(({ id }) => id)).toEqual([next.id]);
  await next.release();
});

it('a paused waiter delays the queue by a few seconds, and not by its lease', async () => {
  const name = 'stopped-waiter';
  const locks = await stage.locks('ioredis', stage.server.url);
  const hold = await locks.mutex(name).acquire();
  const worker = startWorker(stage.server.url, 'hold', name, '60000');
  await eventually('it waits', async () => (await locks.inspect(name)).waiters.length === 1);
  const pending = later(locks.mutex(name).acquire());
  await eventually('so do we', async () => (await locks.inspect(name)).waiters.length === 2);
  // A claim that entered within the last second is taken to be alive.
  await sleep(1_500);
  worker.kill('SIGSTOP');
  const startedMs = performance.now();
  await hold.release();
  const next = await pending;
  expect(performance.now() - startedMs).toBeLessThan(20_000);
  // The paused waiter resumes, finds that its turn is over, and waits again.
  worker.kill('SIGCONT');
  await next.release();
  const held = await worker.said('held');
  expect(BigInt(String(held.fence))).toBeGreaterThan(next.fence);
  worker.tell('release');
  expect(await worker.said('released')).toMatchObject({ released: true });
  await worker.exited;
}, 60_000);

it('row 6: a holder and the next waiters are killed: a live waiter holds after the TTL', async () => {
  const name = 'crowd';
  const locks = await stage.locks('ioredis', stage.server.url);
  const crowd = startWorker(stage.server.url, 'crowd', name, '3', '4000');
  const { fence } = await crowd.said('held');
  const pending = later(locks.mutex(name).acquire());
  await stage.reachable(name, 4);
  await sleep(1_500);
  crowd.kill('SIGKILL');
  const startedMs = performance.now();
  const hold = await pending;
  // One second, and some time for a busy machine. Waiting for a dead waiter would take a TTL more.
  expect(performance.now() - startedMs).toBeLessThan(4_000 + 1_000 + 2_500);
  expect(hold.fence).toBeGreaterThan(BigInt(String(fence)));
  await hold.release();
});

it('each of several holders dies in turn: the next one holds within a second of the TTL', async () => {
  const name = 'chain';
  const locks = await stage.locks('ioredis', stage.server.url);
  const workers = [];
  for (let n = 0; n < 3; n += 1) {
    workers.push(startWorker(stage.server.url, 'hold', name, '4000'));
    await eventually('it is there', async () => {
      const { holders, waiters } = await locks.inspect(name);
      return holders.length + waiters.length === n + 1;
    });
  }
  const pending = later(locks.mutex(name).acquire());
  await eventually('so are we', async () => (await locks.inspect(name)).waiters.length === 3);
  for (const worker of workers) {
    await worker.said('held');
    const startedMs = performance.now();
    worker.kill('SIGKILL');
    const next = workers[workers.indexOf(worker) + 1];
    if (next === undefined) await pending;
    else await next.said('held');
    expect(performance.now() - startedMs).toBeLessThan(4_000 + 1_000 + 2_500);
  }
  await (await pending).release();
});

it('50 waiters send at most 20 commands a second', async () => {
  const name = 'quiet';
  const holder = await stage.locks('ioredis', stage.server.url);
  const waiting = await stage.locks('ioredis', stage.server.url);
  const hold = await holder.mutex(name).acquire({ ttlMs: 10_000 });
  const controller = new AbortController();
  const waiters = Array.from({ length: 50 }, () =>
    waiting
      .mutex(name)
      .acquire({ signal: controller.signal })
      .catch(() => null),
  );
  await eventually('all wait', async () => (await holder.inspect(name)).waiters.length === 50);
  let before = await commandsProcessed();
  // Each waiter asks once more when it is subscribed.
  for (let earlier = Number.NaN; before - earlier !== 1; before = await commandsProcessed()) {
    earlier = before;
    await sleep(250);
  }
  const seconds = 2.5;
  await sleep(seconds * 1_000);
  // Our own two INFO commands are counted too.
  expect(((await commandsProcessed()) - before) / seconds).toBeLessThanOrEqual(20);
  controller.abort();
  await Promise.all(waiters);
  await hold.release();
});

it('a time-out names the holder and how long it has held the lock', async () => {
  const holder = await stage.locks('ioredis', stage.server.url, { owner: 'web-1 of the shop' });
  const other = await stage.locks('node-redis', stage.server.url);
  const hold = await holder.mutex('who').acquire({ metadata: { job: 7 } });
  await sleep(300);
  const error = await other
    .mutex('who')
    .acquire({ waitMs: 400 })
    .catch((reason: unknown) => reason);
  expect(error).toMatchObject({
    code: 'ACQUIRE_TIMEOUT',
    position: 1,
    holders: [{ owner: 'web-1 of the shop', id: hold.id, fence: hold.fence, metadata: { job: 7 } }],
  });
  const [seen] = (error as { holders: Array<{ heldForMs: number; expiresInMs: number }> }).holders;
  expect(seen?.heldForMs).toBeGreaterThan(600);
  expect(seen?.heldForMs).toBeLessThan(10_000);
  expect(seen?.expiresInMs).toBeGreaterThan(15_000);
  await hold.release();
  await eventually(
    'the waiter and its note are gone',
    async () => (await stage.admin.keys('*who*')).length === 0,
  );
});

it('a full queue refuses claims, and expired queue positions do not keep it full', async () => {
  const locks = await stage.locks('ioredis', stage.server.url, { queueMax: 2 });
  const hold = await locks.mutex('full').acquire();
  const controller = new AbortController();
  const waiting = [1, 2].map(() =>
    locks
      .mutex('full')
      .acquire({ signal: controller.signal })
      .catch(() => null),
  );
  await eventually('both wait', async () => (await locks.inspect('full')).waiters.length === 2);
  await expect(locks.mutex('full').acquire()).rejects.toMatchObject({ code: 'QUEUE_FULL' });
  controller.abort();
  await Promise.all(waiting);
  await eventually('they are gone', async () => (await locks.inspect('full')).waiters.length === 0);
  const next = later(locks.mutex('full').acquire());
  await eventually('the queue has room', async () => (await locks.inspect('full')).waiters.length === 1);
  await hold.release();
  await (await next).release();
});

it('a long queue that is full costs little per refused claim, and dead positions leave it', async () => {
  const { client, close } = await openClient('ioredis', stage.server.url);
  const queueMax = 1_000;
  const store = redisStore(client, { queueMax });
  onTestFinished(async () => {
    await store.close();
    close();
  });
  const claim = async (id: string): Promise<string> => {
    const mode = { kind: 'exclusive' } as const;
    const request = { name: 'long', id, mode, ttlMs: 30_000, wait: true, note: '', fenceAbove: 0n };
    const failed = await store.claim(request).then(
      () => null,
      (error: { code: string }) => error.code,
    );
    return failed ?? 'entered';
  };
  await claim('holder');
  const entered = await Promise.all(Array.from({ length: queueMax }, (_, n) => claim(`waiter ${n}`)));
  expect(new Set(entered)).toEqual(new Set(['entered']));
  await stage.admin.config('RESETSTAT');
  expect(await claim('another')).toBe('QUEUE_FULL');
  const looks = Number(/cmdstat_hget:calls=(\d+)/.exec(await stage.admin.info('commandstats'))?.[1]);
  expect(looks).toBeGreaterThan(50);
  expect(looks).toBeLessThan(150);
  // As if its position had expired. Each refused claim looks at another part of the queue.
  await stage.admin.hdel('holdfast:\u0001info:long', 'waiter 777');
  await eventually('there is room', async () => (await claim('another')) === 'entered');
});
