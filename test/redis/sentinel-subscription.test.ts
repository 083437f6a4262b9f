import { EventEmitter } from 'node:events';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { createSentinel } from 'redis';
import { expect, it, onTestFinished } from 'vitest';
import { releaseScript } from '../../src/generated/redis-scripts.ts';
import { createLocks, type Locks } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import {
  type NodeRedisSentinel,
  NodeRedisSentinelConnection,
} from '../../src/stores/redis/node-redis-sentinel-connection.ts';
import { MASTER } from '../../src/torture/servers/redis-sentinel.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { startRedisSentinel } from '../support/servers/redis-sentinel.ts';
import { eventually, later } from '../support/waiting/eventually.ts';

const topology = await useStage(startRedisSentinel());

/** A client, and locks in as many stores over it. */
async function open(stores: number) {
  const client = createSentinel({
    name: MASTER,
    sentinelRootNodes: [...topology.addresses],
  });
  client.on('error', () => {});
  await client.connect();
  const all = Array.from({ length: stores }, () =>
    createLocks(redisStore(client), { ttlMs: 120_000, waitMs: 60_000 }),
  );
  onTestFinished(async () => {
    await Promise.all(all.map((locks) => locks.close({ drainMs: 0 })));
    await client.destroy();
  });
  return { client, all };
}

/** A client of the master, to look behind the API. */
async function openAdmin(): Promise<Redis> {
  const admin = new Redis(await topology.masterPort());
  onTestFinished(() => admin.disconnect());
  return admin;
}

const subscribersIn = (list: unknown): string[] =>
  [...String(list).matchAll(/^id=(\d+) (?!.* name=sentinel)/gm)].map(([, id = '']) => id);

it('a waiter is served after the connection of its subscription broke', async () => {
  const [holder] = (await open(1)).all;
  const [waiter] = (await open(1)).all;
  const admin = await openAdmin();
  const hold = await holder?.mutex('broken').acquire();
  const pending = later((waiter as NonNullable<typeof waiter>).mutex('broken').acquire());
  let subscribers: string[] = [];
  const entry = async (): Promise<string> => (await admin.hvals('holdfast:\u0001info:broken'))[0] ?? '';
  await eventually('it is subscribed and waits', async () => {
    subscribers = subscribersIn(await admin.call('CLIENT', 'LIST', 'TYPE', 'pubsub'));
    return subscribers.length === 1 && /^w (\S+ ){4}[^- ]/.test(await entry());
  });
  // After its first look at the lock, it sleeps for at least 30 s.
  const atFirst = await entry();
  await eventually('it has looked', async () => (await entry()) !== atFirst);
  // In one step: nobody hears of the grant, so the server drops the claim from the queue.
  const keys = ['\u0001fence', 'broken', '\u0001queue:broken', '\u0001info:broken'];
  const [, released] = (await admin
    .multi()
    .call('CLIENT', 'KILL', 'ID', `${subscribers[0]}`)
    .eval(releaseScript.text, keys.length, ...keys.map((key) => `holdfast:${key}`), hold?.id ?? '', '0')
    .exec()) as [unknown, unknown][];
  expect(released?.[1]).toBe(1);
  let isHeld = false;
  pending.then(
    () => {
      isHeld = true;
    },
    () => {},
  );
  await eventually('the waiter holds the lock', () => isHeld, 20_000);
  await (await pending).release();
}, 90_000);

it('a store that is closed leaves the subscriptions of another one over the same client', async () => {
  const { client, all } = await open(2);
  const [closed, kept] = all;
  const [other] = (await open(1)).all;
  const listeners: number[] = [];
  for (const locks of [closed, kept]) {
    const hold = await other?.mutex('first wait').acquire();
    const waiting = later((locks as NonNullable<typeof locks>).mutex('first wait').acquire());
    await eventually('it waits', async () => (await other?.inspect('first wait'))?.waiters.length === 1);
    await hold?.release();
    await (await waiting).release();
    listeners.push(client.listenerCount('topology-change'));
  }
  // However many stores there are.
  expect(listeners[1]).toBe(listeners[0]);
  const admin = await openAdmin();
  const listening = async (): Promise<unknown> =>
    await admin.call('PUBSUB', 'NUMSUB', 'holdfast:\u0001evicted');
  await eventually('it is subscribed', async () => Number(((await listening()) as unknown[])[1]) === 1);
  await closed?.close({ drainMs: 0 });
  // Without the message it would learn of it at its next renewal, a long time later.
  const hold = await kept?.mutex('evicted').acquire({ renewEveryMs: 100_000 });
  await other?.evict('evicted', { id: hold?.id ?? '' });
  await eventually('the holder is notified', () => hold?.signal.aborted === true, 20_000);
}, 90_000);

it('a client that its owner has ended is not connected again by a heartbeat', async () => {
  const { client, all } = await open(1);
  const [locks] = all as [Locks];
  const [other] = (await open(1)).all;
  const hold = await other?.mutex('ended').acquire();
  const waiting = later(locks.mutex('ended').acquire());
  const admin = await openAdmin();
  const subscribers = async (): Promise<number> =>
    subscribersIn(await admin.call('CLIENT', 'LIST', 'TYPE', 'pubsub')).length;
  await eventually('it is subscribed', async () => (await subscribers()) === 1);
  await hold?.release();
  await (await waiting).release();
  await client.destroy();
  await eventually('it is not subscribed', async () => (await subscribers()) === 0);
  // Longer than the interval of heartbeats.
  await sleep(6_000);
  expect(await subscribers()).toBe(0);
});

it('is not up before the client has subscribed, also when the master changes meanwhile', async () => {
  let subscribed = (): void => {};
  const subscribing = new Promise<void>((resolve) => {
    subscribed = resolve;
  });
  // Only the order of the client's events matters here: `faults/redis/sentinel` has real Sentinels.
  const client = Object.assign(new EventEmitter(), {
    isOpen: true,
    subscribe: () => subscribing,
    unsubscribe: () => Promise.resolve(),
  });
  const connection = new NodeRedisSentinelConnection(client as unknown as NodeRedisSentinel).use();
  const log: string[] = [];
  connection.listen(['channel'], {
    onMessage: () => {},
    onUp: () => log.push('up'),
    onDown: () => log.push('down'),
    onEnd: () => log.push('end'),
  });
  client.emit('topology-change');
  expect(log).toEqual([]);
  subscribed();
  await setImmediate();
  expect(log).toEqual(['up']);
  client.emit('topology-change');
  expect(log).toEqual(['up', 'down']);
  await setImmediate();
  expect(log).toEqual(['up', 'down', 'up']);
});
