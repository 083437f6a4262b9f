import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { createSentinel } from 'redis';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createLocks, type Locks, type LocksOptions, openLocks } from '../../../src/index.ts';
import { type RedisStoreOptions, redisStore } from '../../../src/stores/redis/index.ts';
import { adoptSentinels } from '../../../src/stores/redis/ioredis-client.ts';
import { MASTER } from '../../../src/torture/servers/redis-sentinel.ts';
import type { Server } from '../../../src/torture/servers/server.ts';
import { closeAndExit, EXITED_AT_ONCE } from '../../support/process/close-and-exit.ts';
import { type RedisSentinel, startRedisSentinel } from '../../support/servers/redis-sentinel.ts';
import { eventually, later, shortest } from '../../support/waiting/eventually.ts';
import { measureHandoff } from '../../support/waiting/handoff.ts';

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

/** Through the Sentinels. */
const viaSentinels = (topology: RedisSentinel, options: LocksOptions & RedisStoreOptions = {}): Locks =>
  locksOver(
    new Redis({ sentinels: [...topology.addresses], name: MASTER, maxRetriesPerRequest: null }),
    options,
  );

/** Through the Sentinels, with the other library. */
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

/** To one server, whether it is the master or not. */
const direct = (server: Server | undefined, options: LocksOptions & RedisStoreOptions = {}): Locks =>
  locksOver(new Redis(server?.url ?? '', { maxRetriesPerRequest: null }), options);

async function serverAt(topology: RedisSentinel, port: number): Promise<Server> {
  const found = topology.servers.find((server) => server.port === port);
  if (found === undefined) throw new Error(`no server at port ${port}`);
  return found;
}

/**
 * Resolves when both replicas have all writes of the master. What they do not have is lost with it, which is
 * another row.
 */
async function replicated(master: Server): Promise<void> {
  const client = new Redis(master.url);
  onTestFinished(() => client.disconnect());
  // WAIT is for the last write of this connection, and so for all before it.
  await client.set('mark', 'x');
  expect(await client.call('WAIT', 2, 20_000)).toBe(2);
}

/** Resolves to the new master when the Sentinels have agreed on one. */
async function promoted(topology: RedisSentinel, before: number): Promise<Server> {
  let port = 0;
  const isAnother = async (): Promise<boolean> => {
    port = await topology.masterPort();
    return port !== 0 && port !== before;
  };
  await eventually('another is the master', isAnother, 60_000);
  return await serverAt(topology, port);
}

it('row 31: a paused master resumes and grants a lock of the new master: fences differ', async () => {
  await using topology = await startRedisSentinel();
  const before = await topology.masterPort();
  const old = await serverAt(topology, before);
  const [stale, silent] = [direct(old, { ttlMs: 15_000, renewEveryMs: 500 }), viaSentinels(topology)];
  await (await stale.mutex('y').acquire()).release();
  await (await silent.mutex('z').acquire()).release();
  await topology.setDownAfter(500);
  old.kill('SIGSTOP');
  // Its connection to the old master is open, but silent. The store has to notice that, and to look for the
  // master again.
  const followed = later(silent.mutex('z').acquire());
  await promoted(topology, before);
  await topology.setDownAfter(60_000);
  const one = await viaSentinels(topology, { ttlMs: 30_000 }).mutex('y').acquire();
  await (await followed).release();
  // Other clients are still connected to the old master, which does not know of the failover yet.
  old.kill('SIGCONT');
  const two = await stale.mutex('y').acquire({ waitMs: 6_000 });
  expect(two.fence).not.toBe(one.fence);
  one.assertHeld();
  // Once the Sentinels have demoted it, its grants are gone, and the holder is notified at its next renewal.
  await eventually('its holder is notified', () => two.signal.aborted, 40_000);
  one.assertHeld();
  expect(await one.release()).toBe(true);
}, 150_000);

it('a Sentinel that is silent after a reconnect ends no process', async () => {
  await using topology = await startRedisSentinel();
  // Once it is deaf, it answers everything but a subscription.
  let isDeaf = false;
  let ignored = 0;
  const sockets = new Set<Socket>();
  const relay = createServer((client) => {
    const server = connect(topology.addresses[0]?.port ?? 0, '127.0.0.1');
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.destroy()).on('close', () => to.destroy());
      from.on('data', (data) => {
        if (isDeaf && from === client && data.includes('subscribe')) ignored += 1;
        else to.write(data);
      });
    }
  });
  await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    relay.close();
    for (const socket of sockets) socket.destroy();
  });
  const unhandled: unknown[] = [];
  const onUnhandled = (reason: unknown): unknown => unhandled.push(reason);
  process.on('unhandledRejection', onUnhandled);
  onTestFinished(() => void process.off('unhandledRejection', onUnhandled));
  // As `openLocks` makes it, but with short times.
  const client = new Redis({
    sentinels: [{ host: '127.0.0.1', port: (relay.address() as AddressInfo).port }],
    name: MASTER,
    lazyConnect: true,
    failoverDetector: true,
    sentinelMaxConnections: 1,
    sentinelCommandTimeout: 200,
    sentinelReconnectStrategy: () => 10,
  });
  client.on('error', () => {});
  closers.push(async () => client.disconnect());
  adoptSentinels(client);
  const subscribed = new Promise((resolve) => client.once('failoverSubscribed', resolve));
  await client.connect();
  await subscribed;
  isDeaf = true;
  for (const socket of sockets) socket.destroy();
  await eventually('ioredis subscribes again', () => ignored > 0);
  await sleep(1_000);
  expect(unhandled).toEqual([]);
}, 90_000);

it('row 32: the master has become a replica: the client finds the new one', async () => {
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
  // As the Sentinels do some seconds later, but without closing a connection.
  await old?.call('REPLICAOF', '127.0.0.1', port);
  const hold = await locks.mutex('x').acquire();
  hold.assertHeld();
  await hold.release();
  // A client of this server only gets the error when its wait is over, and nothing was done.
  await expect(stuck.mutex('x').acquire({ waitMs: 1_000 })).rejects.toMatchObject({
    code: 'STORE',
    applied: 'no',
    message: expect.stringContaining('replica'),
  });
}, 120_000);

describe('waitReplicas, and a master that is killed', () => {
  let topology: RedisSentinel;
  beforeAll(async () => {
    topology = await startRedisSentinel();
  });
  afterAll(async () => {
    await topology.stop();
  });

  /** Stops a server until it is resumed or the test is over. */
  const stopped = (index: number): { wake(): void } => {
    const server = topology.servers[index];
    const wake = (): void => server?.kill('SIGCONT');
    server?.kill('SIGSTOP');
    onTestFinished(wake);
    return { wake };
  };

  it('row 30: a grant that did not reach the replicas is given back', async () => {
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
      // On a busy machine the other replica may be late, too.
      message: expect.stringMatching(/[01] of 2/),
    });
    const other = viaSentinels(topology);
    await (await other.mutex('x').acquire({ waitMs: 0 })).release();
    replica.wake();
    const hold = await locks.mutex('x').acquire();
    await hold.release();
  });

  it('a renewal that did not reach the replicas does not count: the hold ends at its deadline', async () => {
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
    // One renewal may have been confirmed just before.
    expect(renewed).toBeLessThanOrEqual(1);
    expect(endedMs - startedMs).toBeLessThan(8_000);
  });

  it('a handoff waits for the replicas too', async () => {
    const [a, b] = [viaSentinels(topology, { waitReplicas: 2 }), viaSentinels(topology, { waitReplicas: 2 })];
    const hold = await a.mutex('z').acquire();
    const pending = later(b.mutex('z').acquire());
    await eventually('it waits', async () => (await a.inspect('z')).waiters.length === 1);
    // Both replicas have the writes of this connection. The next write comes from the other one.
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

  it('opens by the URL of the Sentinels', async () => {
    const locks = await openLocks(topology.url);
    const hold = await locks.mutex('from a URL').acquire();
    await hold.release();
    await locks.close();
    await expect(openLocks('redis+sentinel://a,b')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  it('a process that closes its locks continues, and exits by itself', async () => {
    expect(await closeAndExit(topology.url)).toBe(EXITED_AT_ONCE);
  });

  it('subscribers that are replaced again and again leave no connections to the Sentinels', async () => {
    const master = await serverAt(topology, await topology.masterPort());
    const [admin, ...sentinels] = [master, ...topology.sentinels].map(({ url }) => new Redis(url));
    for (const client of [admin, ...sentinels]) closers.push(async () => client?.disconnect());
    const subscribed = async (client: Redis | undefined): Promise<string[]> =>
      `${await client?.call('CLIENT', 'LIST', 'TYPE', 'pubsub')}`.match(/^id=.*/gm) ?? [];
    const listening = async (): Promise<number> =>
      (await Promise.all(sentinels.map(subscribed))).flat().length;
    // The client of the commands and the subscriber listen to each Sentinel for failovers.
    const clients = 2 * topology.sentinels.length;
    const locks = await openLocks(topology.url, { waitMs: 60_000 });
    closers.push(() => locks.close({ drainMs: 0 }));
    const hold = await locks.mutex('replaced').acquire();
    const pending = later(locks.mutex('replaced').acquire());
    let killed: string | undefined;
    for (let n = 0; n <= 10; n += 1) {
      let id: string | undefined;
      await eventually('a new one is subscribed', async () => {
        const lines = (await subscribed(admin)).filter((line) => !line.includes(' name=sentinel'));
        id = /^id=(\d+)/.exec(lines[0] ?? '')?.[1];
        return id !== undefined && id !== killed;
      });
      await eventually('it listens to the Sentinels', async () => (await listening()) >= clients);
      killed = id;
      if (n < 10) await admin?.call('CLIENT', 'KILL', 'ID', `${id}`);
    }
    await eventually('only the last one is left', async () => (await listening()) === clients);
    await hold.release();
    await (await pending).release();
  }, 90_000);

  it('the Sentinel client of node-redis acquires, waits and hands off', async () => {
    const [a, b] = [await viaNodeRedis(topology), await viaNodeRedis(topology)];
    const handoffMs = async (): Promise<number> => {
      const hold = await a.mutex('other library').acquire();
      const { tookMs, next } = await measureHandoff(a, b, 'other library', hold);
      await next.release();
      return tookMs;
    };
    expect(await shortest(400, handoffMs)).toBeLessThan(400);
  });

  it('a master that is killed: the new one renews the hold in time, and the queue is served', async () => {
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
    // The other library may still wait for a reply of the dead master. One attempt can fail, the hold does
    // not.
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
