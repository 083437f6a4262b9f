import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { Locks } from '../../src/index.ts';
import type { PushedGrant } from '../../src/store/store.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { LIBRARIES, type Library, openClient } from '../support/clients/redis-clients.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { startStage } from './support/stage.ts';

const stage = await useStage(startStage());
afterEach(() => stage.leaveAll());

/** Only a claim that entered within this time is sent its grant; any other has to ask for it. */
const FRESH_MS = 1_000;

const claims = async (): Promise<number> => {
  const scripts = await stage.admin.info('commandstats');
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(scripts)?.[1] ?? 0);
};

/** Two processes. The second one is subscribed. */
async function holderAndWaiter(library: Library, name: string): Promise<[Locks, Locks]> {
  const [holder, locks] = await Promise.all([
    stage.locks(library, stage.server.url),
    stage.locks(library, stage.server.url),
  ]);
  const warm = `${name}-warm`;
  const controller = new AbortController();
  const hold = await holder.mutex(warm).acquire();
  const waiter = later(locks.mutex(warm).acquire({ signal: controller.signal }));
  await stage.reachable(warm, 1);
  controller.abort();
  await waiter.catch(() => {});
  await eventually('it has left', async () => (await holder.inspect(warm)).waiters.length === 0);
  await hold.release();
  return [holder, locks];
}

describe.each(LIBRARIES)('a grant that comes as a message, under %s', (library) => {
  it.each([true, false])('is confirmed for the whole lease, with renew: %s', async (renew) => {
    const name = `pushed-${library}-${renew}`;
    const [holder, locks] = await holderAndWaiter(library, name);
    const handoff = async (lock: string) => {
      const first = await holder.mutex(lock).acquire();
      const startedMs = performance.now();
      const pending = later(locks.mutex(lock).acquire({ ttlMs: 12_000, renewEveryMs: 11_000, renew }));
      await eventually('it waits', async () => (await holder.inspect(lock)).waiters.length === 1);
      await first.release();
      const hold = await pending;
      const { remainingMs } = hold;
      return { lock, hold, remainingMs, tookMs: performance.now() - startedMs };
    };
    let handed = await handoff(`${name}-0`);
    for (let round = 1; handed.tookMs >= FRESH_MS; round += 1) {
      await handed.hold.release();
      handed = await handoff(`${name}-${round}`);
    }
    const { lock, hold, remainingMs } = handed;
    // An unconfirmed grant lasts no longer than this, and the first renewal would come too late for it.
    expect(remainingMs).toBeLessThanOrEqual(5_000);
    await eventually('it is confirmed', () => hold.remainingMs > 5_000);
    expect(await stage.admin.pttl(`holdfast:${lock}`)).toBeGreaterThan(5_000);
    await sleep(5_500);
    hold.assertHeld();
    expect(await hold.release()).toBe(true);
  });

  it('takes one claim and one release in all', async () => {
    const count = async (name: string): Promise<{ calls: number[]; tookMs: number }> => {
      const [holder, locks] = await holderAndWaiter(library, name);
      const first = await holder.mutex(name).acquire();
      const before = await claims();
      const startedMs = performance.now();
      // A grant of such a short time needs no confirmation.
      const pending = later(locks.mutex(name).acquire({ ttlMs: 5_000, renew: false }));
      await eventually(
        'it waits',
        async () => (await stage.admin.zcard(`holdfast:\u0001queue:${name}`)) === 1,
      );
      await sleep(300);
      const calls = [await claims()];
      await first.release();
      const hold = await pending;
      const tookMs = performance.now() - startedMs;
      // The holder has released; the waiter has sent nothing.
      calls.push(await claims());
      await hold.release();
      calls.push(await claims());
      await stage.leaveAll();
      return { calls: calls.map((each) => each - before), tookMs };
    };
    let counted = await count(`counted-${library}-0`);
    for (let round = 1; counted.tookMs >= FRESH_MS; round += 1)
      counted = await count(`counted-${library}-${round}`);
    expect(counted.calls).toEqual([1, 2, 3]);
  });
});

it('a pushed grant that seems to end late, as when a clock was set forward, is not trusted', async () => {
  const name = 'clock set forward';
  const { client, close } = await openClient('ioredis', stage.server.url);
  const store = redisStore(client);
  const observed = await store.watch({ name: 'subscribed' }, () => {});
  const mode = { kind: 'exclusive' } as const;
  const terms = { name, mode, ttlMs: 30_000, note: '', fenceAbove: 0n };
  await store.claim({ ...terms, id: 'holder', wait: false });
  const pushed: PushedGrant[] = [];
  const waiter = { wake: (grant?: PushedGrant) => void (grant !== undefined && pushed.push(grant)) };
  // The server's time comes with each answer, and is used for a second.
  await eventually('it is pushed', async () => {
    await store.claim({ ...terms, id: 'waiter', wait: true }, undefined, waiter);
    const endsMs = Number((await stage.admin.time())[0]) * 1_000 + 15_000;
    const channels = (await stage.admin.call('PUBSUB', 'CHANNELS')) as string[];
    const message = `g\nholdfast:${name}\nwaiter\n${'1'.padStart(16, '0')}\n${endsMs}`;
    for (const channel of channels) await stage.admin.publish(channel, message);
    return pushed.length > 0;
  });
  expect(pushed[0]?.validForMs).toBeGreaterThan(0);
  expect(pushed[0]?.validForMs).toBeLessThanOrEqual(5_000);
  await observed[Symbol.asyncDispose]();
  await store.close();
  close();
});
