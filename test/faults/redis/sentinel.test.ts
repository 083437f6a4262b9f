import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { createSentinel } from 'redis';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createLocks, type Locks, type LocksOptions, openLocks } from '../../../src/index.ts';
import { type RedisStoreOptions, redisStore } from '../../../src/stores/redis/index.ts';
import { eventually, later, shortest } from '../../support/patience.ts';
import { LEFT, leave } from '../../support/process/leave.ts';
import { MASTER, type RedisSentinel, startRedisSentinel } from '../../support/servers/redis-sentinel.ts';
import type { Server } from '../../support/servers/server.ts';

const closers: Array<() => Promise<unknown>> = [];
afterEach(async () => {
  await Promise.allSettled(closers.splice(0).map((close) => close()));
});

function locksOver(client: Redis, given: LocksOptions & RedisStoreOptions = {}): Locks {
  client.on('error', () => {});
  const { waitReplicas, ...rest } = given;
  const locks = createLocks(redisStore(client, { waitReplicas }), { waitMs: 25_000, ...rest });
  closers.push(async () => {
    await locks.close({ drainMs: 0 });
    client.disconnect();
  });
  return locks;
}

/** Through the sentinels, as one should. */
const viaSentinels = (topology: RedisSentinel, options: LocksOptions & RedisStoreOptions = {}): Locks =>
  locksOver(
    new Redis({ sentinels: [...topology.addresses], name: MASTER, maxRetriesPerRequest: null }),
    options,
  );

/** Through the sentinels, with the other library. */
async function viaNodeRedis(topology: RedisSentinel): Promise<Locks> {
  const client = createSentinel({ name: MASTER, sentinelRootNodes: [...topology.addresses] });
  client.on('error', () => {});
  await client.connect();
  const locks = createLocks(redisStore(client), { waitMs: 25_000 });
  closers.push(async () => {
    await locks.close({ drainMs: 0 });
    await client.destroy();
  });
  return locks;
}

/** To one server, whatever it is now. */
const direct = (server: Server | undefined, options: LocksOptions & RedisStoreOptions = {}): Locks =>
  locksOver(new Redis(server?.url ?? '', { maxRetriesPerRequest: null }), options);

async function serverAt(topology: RedisSentinel, port: number): Promise<Server> {
  const found = topology.servers.find((server) => server.port === port);
  if (found === undefined) throw new Error(`no server at port ${port}`);
  return found;
}

/** Resolves when both replicas have all that the master was told so far: what they have not got is lost with it, and that is another row. */
async function replicated(master: Server): Promise<void> {
  const client = new Redis(master.url);
  onTestFinished(() => client.disconnect());
  // The wait is for one's own last write, and with it for everything before.
  await client.set('mark', 'x');
  expect(await client.call('WAIT', 2, 20_000)).toBe(2);
}

/** Resolves to the new master when the sentinels have agreed on one. */
async function promoted(topology: RedisSentinel, before: number): Promise<Server> {
  let port = 0;
  const isAnother = async (): Promise<boolean> => {
    port = await topology.masterPort();
    return port !== 0 && port !== before;
  };
  await eventually('another is the master', isAnother, 60_000);
  return await serverAt(topology, port);
}

it('row 31: a paused master that wakes up gives away what the new one has given: the fences tell them apart', async () => {
  await using topology = await startRedisSentinel();
  const before = await topology.masterPort();
  const old = await serverAt(topology, before);
  const [stale, silent] = [direct(old, { ttlMs: 15_000, renewEveryMs: 500 }), viaSentinels(topology)];
  await (await stale.mutex('y').acquire()).release();
  await (await silent.mutex('z').acquire()).release();
  await topology.setDownAfter(500);
  old.kill('SIGSTOP');
  // Its connection to the old master is as good as ever, only silent: it has to find out by itself that it should look again.
  const followed = later(silent.mutex('z').acquire());
  await promoted(topology, before);
  await topology.setDownAfter(60_000);
  const one = await viaSentinels(topology, { ttlMs: 30_000 }).mutex('y').acquire();
  await (await followed).release();
  // Whoever else was connected to the old master still is, and it does not know yet that it is none any more.
  old.kill('SIGCONT');
  const two = await stale.mutex('y').acquire({ waitMs: 6_000 });
  expect(two.fence).not.toBe(one.fence);
  one.assertHeld();
  // Once the sentinels have told it, what it has given away is gone, and the holder hears of it by its next renewal.
  await eventually('its holder is told', () => two.signal.aborted, 40_000);
  one.assertHeld();
  expect(await one.release()).toBe(true);
}, 150_000);

it('row 32: a master that has become a replica is not "held by another": the client looks again, and the wait goes on', async () => {
  await using topology = await startRedisSentinel();
  const locks = viaSentinels(topology);
  const stuck = direct(topology.servers[0]);
  await (await locks.mutex('x').acquire()).release();
  await (await stuck.mutex('x').acquire()).release();
  const before = await topology.masterPort();
  const [sentinel, old] = [topology.sentinels[0], topology.servers[0]].map((server) => {
    const client = new Redis(server?.url ?? '');
    onTestFinished(() => client.disconnect());
    return client;
  });
  await sentinel?.call('SENTINEL', 'FAILOVER', MASTER);
  const { port } = await promoted(topology, before);
  // As the sentinels would some seconds later, but without ending anybody's connection.
  await old?.call('REPLICAOF', '127.0.0.1', port);
  const hold = await locks.mutex('x').acquire();
  hold.assertHeld();
  await hold.release();
  // Who insists on this server is told what is wrong, when the wait is over, and nothing was done.
  await expect(stuck.mutex('x').acquire({ waitMs: 1_000 })).rejects.toMatchObject({
    code: 'STORE',
    applied: 'no',
    message: expect.stringContaining('replica'),
  });
}, 120_000);

describe('replicas that are asked, and a master that is killed', () => {
  let topology: RedisSentinel;
  beforeAll(async () => {
    topology = await startRedisSentinel();
  });
  afterAll(async () => {
    await topology.stop();
  });

  /** Stops one of the servers, until it is woken or the test is over. */
  const stopped = (index: number): { wake(): void } => {
    const server = topology.servers[index];
    const wake = (): void => server?.kill('SIGCONT');
    server?.kill('SIGSTOP');
    onTestFinished(wake);
    return { wake };
  };

  it('row 30: a grant that did not reach the replicas is given back, so none of them can be promoted without knowing of it', async () => {
    const locks = viaSentinels(topology, { waitReplicas: 2, ttlMs: 5_000 });
    await (await locks.mutex('x').acquire()).release();
    const replica = stopped(1);
    const failure = await locks
      .mutex('x')
      .tryAcquire()
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({
      code: 'STORE',
      applied: 'no',
      message: expect.stringContaining('1 of 2'),
    });
    const other = viaSentinels(topology);
    await (await other.mutex('x').acquire({ waitMs: 0 })).release();
    replica.wake();
    const hold = await locks.mutex('x').acquire();
    await hold.release();
  });

  it('a renewal that did not reach them is none: the hold ends when it would have', async () => {
    const locks = viaSentinels(topology, { waitReplicas: 2, ttlMs: 1_500 });
    const hold = await locks.mutex('y').acquire();
    let endedMs = 0;
    hold.signal.addEventListener('abort', () => {
      endedMs = performance.now();
    });
    stopped(2);
    const startedMs = performance.now();
    let renewed = 0;
    locks.on('renewed', () => {
      renewed += 1;
    });
    await eventually('it is lost', () => hold.signal.aborted);
    expect(hold.signal.reason).toMatchObject({ how: 'expired' });
    // One may have been confirmed just before.
    expect(renewed).toBeLessThanOrEqual(1);
    expect(endedMs - startedMs).toBeLessThan(3_000);
  });

  it('a hand-over is confirmed too', async () => {
    const [a, b] = [viaSentinels(topology, { waitReplicas: 2 }), viaSentinels(topology, { waitReplicas: 2 })];
    const hold = await a.mutex('z').acquire();
    const pending = later(b.mutex('z').acquire());
    await eventually('it waits', async () => (await a.inspect('z')).waiters.length === 1);
    // Both replicas have all that this connection has written; what comes next is written by the other.
    const other = await b.mutex('z beside').acquire();
    let isHeld = false;
    pending.then(
      () => {
        isHeld = true;
      },
      () => {},
    );
    const { wake } = stopped(1);
    await hold.release();
    await sleep(1_500);
    expect(isHeld).toBe(false);
    wake();
    const next = await pending;
    const replica = new Redis(topology.servers[1]?.url ?? '');
    onTestFinished(() => replica.disconnect());
    expect(await replica.get('holdfast:z')).toContain(next.id);
    await Promise.all([next.release(), other.release()]);
  });

  it('opens by the URL of the sentinels', async () => {
    const locks = await openLocks(topology.url);
    const hold = await locks.mutex('from a URL').acquire();
    await hold.release();
    await locks.close();
    await expect(openLocks('redis+sentinel://a,b')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  it('a process that closes it goes on, and ends by itself', async () => {
    expect(await leave(topology.url)).toBe(LEFT);
  });

  it("node-redis' Sentinel client takes, waits and hands over", async () => {
    const [a, b] = [await viaNodeRedis(topology), await viaNodeRedis(topology)];
    const handOver = async (): Promise<number> => {
      const hold = await a.mutex('other library').acquire();
      const pending = later(b.mutex('other library').acquire());
      await eventually('it waits', async () => (await a.inspect('other library')).waiters.length === 1);
      await sleep(100);
      const startedMs = performance.now();
      await hold.release();
      const next = await pending;
      const tookMs = performance.now() - startedMs;
      expect(next.fence).toBeGreaterThan(hold.fence);
      await next.release();
      return tookMs;
    };
    expect(await shortest(400, handOver)).toBeLessThan(400);
  });

  it('a master that is killed: the hold is renewed by the new one in time, and the line goes on', async () => {
    const [a, b] = [viaSentinels(topology), viaSentinels(topology)];
    const other = await viaNodeRedis(topology);
    const third = await other.mutex('w').acquire({ ttlMs: 40_000 });
    const hold = await a.mutex('x').acquire({ ttlMs: 40_000, renewEveryMs: 1_000 });
    const pending = later(b.mutex('x').acquire({ waitMs: 60_000 }));
    await eventually('it waits', async () => (await a.inspect('x')).waiters.length === 1);
    const master = await serverAt(topology, await topology.masterPort());
    await replicated(master);
    await topology.setDownAfter(500);
    master.kill('SIGKILL');
    await master.exited();
    let renewed = 0;
    a.on('renewed', () => {
      renewed += 1;
    });
    await eventually('it is renewed by the new master', () => renewed > 0, 35_000);
    hold.assertHeld();
    expect(await hold.release()).toBe(true);
    const next = await pending;
    expect(next.fence).toBeGreaterThan(hold.fence);
    await next.release();
    // The other library may still wait for an answer of the dead one: one try can fail, the hold does not.
    const extended = (): Promise<boolean> =>
      third.extend().then(
        () => true,
        (error: unknown) => {
          expect(error).toMatchObject({ code: 'STORE' });
          return false;
        },
      );
    await eventually('the other library finds the new master', extended, 30_000);
    expect(await third.release()).toBe(true);
  }, 120_000);
});

it.each([-1, 1.5, Number.NaN])('refuses to wait for %s replicas', (waitReplicas) => {
  const client = new Redis({ lazyConnect: true });
  expect(() => redisStore(client, { waitReplicas })).toThrow(
    expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
  );
});
