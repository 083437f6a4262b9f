import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectionOf } from '../../src/stores/redis/client.ts';
import { RedisNode } from '../../src/stores/redlock/node.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { heard, startRedlockStage } from './support/stage.ts';

let server: Server;
let client: Redis;
let node: RedisNode;
beforeAll(async () => {
  server = await startRedis();
  client = new Redis(server.url);
  node = new RedisNode(
    connectionOf(client),
    { prefix: 'n:', label: 'the node', allowEviction: false },
    false,
  );
});
afterAll(async () => {
  await node.close();
  client.disconnect();
  await server.stop();
});

const { signal } = new AbortController();
const nowUs = (): bigint => BigInt(Date.now()) * 1000n;
let ids = 0;
const claimOn = (name: string) => ({ name, id: `o#000000000000.${(ids++).toString(36)}` });
const asking = (ref: { name: string; id: string }, more: object = {}) => ({
  ...ref,
  mode: { kind: 'exclusive' } as const,
  ttlMs: 60_000,
  note: '',
  proposed: nowUs(),
  ...more,
});
const SHARED = { mode: { kind: 'shared' } as const };

async function fenceOf(ref: { name: string; id: string }, more: object = {}): Promise<bigint> {
  const vote = await node.vote(asking(ref, more), signal);
  if (!vote.granted) throw new Error('refused');
  return vote.fence;
}

describe('the votes of one node', () => {
  it('the node accepts a proposal above its counter, or gives the next fence', async () => {
    const far = nowUs() + 3_600_000_000n;
    expect(await fenceOf(claimOn('a'), { proposed: far })).toBe(far);
    expect(await fenceOf(claimOn('b'), { proposed: far })).toBe(far + 1n);
    expect(await fenceOf(claimOn('c'), { ...SHARED, proposed: 5n })).toBe(far + 2n);
    await client.del('n:\u0001fence');
  });

  it('the node gives its own time to a client whose clock is far behind', async () => {
    const before = nowUs();
    expect(await fenceOf(claimOn('late'), { proposed: 1n })).toBeGreaterThan(before - 2_000_000n);
  });

  it('the node keeps the fence of a claim that it has, and names the blocking holder', async () => {
    const [own, other] = [claimOn('held'), claimOn('held')];
    const fence = await fenceOf(own);
    expect(await node.vote(asking(own), signal)).toEqual({ granted: true, fence, isKept: true });
    const refused = await node.vote(asking(other), signal);
    expect(refused).toMatchObject({ granted: false, holder: own.id, isForeign: false });
    await client.set('n:theirs', 'a value of theirs', 'PX', 60_000);
    expect(await node.vote(asking(claimOn('theirs')), signal)).toMatchObject({
      holder: 'a value of theirs',
      isForeign: true,
    });
  });

  it.each([{}, SHARED])(
    'the node raises the fence of a claim that it holds, and its counter with it (%j)',
    async (mode) => {
      const own = claimOn(`raised ${JSON.stringify(mode)}`);
      const fence = await fenceOf(own, { ...mode, note: '{"a":1}' });
      const raised = fence + 50_000_000n;
      expect(await node.merge(own, raised, signal)).toBe(raised);
      // A lower fence changes nothing.
      expect(await node.merge(own, fence, signal)).toBe(raised);
      const [claim] = await node.read(own.name);
      expect(claim).toMatchObject({ id: own.id, fence: raised, note: '{"a":1}' });
      expect(claim?.heldForMs).toBeLessThan(5_000);
      expect(claim?.expiresInMs).toBeGreaterThan(50_000);
      expect(await fenceOf(claimOn('after'))).toBeGreaterThan(raised);
      await node.release({ name: 'after', id: `o#000000000000.${(ids - 1).toString(36)}` });
      await client.del('n:\u0001fence');
    },
  );

  it('the node does not raise the fence of a claim that it does not hold', async () => {
    const [lost, holder] = [claimOn('gone'), claimOn('gone')];
    await fenceOf(lost, { ttlMs: 50 });
    await sleep(80);
    const fence = await fenceOf(holder);
    const counter = await client.get('n:\u0001fence');
    expect(await node.merge(lost, fence + 1_000n, signal)).toBeNull();
    expect(await client.get('n:\u0001fence')).toBe(counter);
    expect(await node.read('gone')).toMatchObject([{ id: holder.id, fence }]);
    expect(await node.merge(claimOn('nobody'), fence, signal)).toBeNull();
    const [reader, gone] = [claimOn('readers'), claimOn('readers')];
    await fenceOf(reader, SHARED);
    await fenceOf(gone, { ...SHARED, ttlMs: 50 });
    await sleep(80);
    expect(await node.merge(gone, fence + 1_000n, signal)).toBeNull();
  });

  it('the node never gives two readers the same fence', async () => {
    const readers = [claimOn('many'), claimOn('many'), claimOn('many')];
    for (const reader of readers) await fenceOf(reader, SHARED);
    const wanted = nowUs() + 10_000_000n;
    const fences = await Promise.all(readers.map((reader) => node.merge(reader, wanted, signal)));
    expect(new Set(fences).size).toBe(3);
    await client.del('n:\u0001fence');
  });

  it('the plain key does not outlive the last reader, also after a longer claim was taken back', async () => {
    const [reader, unlucky] = [claimOn('shrunk'), claimOn('shrunk')];
    await fenceOf(reader, SHARED);
    await fenceOf(unlucky, { ...SHARED, ttlMs: 3_600_000 });
    expect(await client.pttl('n:shrunk')).toBeGreaterThan(3_000_000);
    expect(await node.withdraw(unlucky, signal)).toBe(true);
    // Other programs use the plain key only.
    expect(await client.pttl('n:shrunk')).toBeLessThanOrEqual(60_000);
    expect(await node.read('shrunk')).toMatchObject([{ id: reader.id }]);
  });

  it('taking a claim back wakes no waiter, and a release does', async () => {
    const [first, second] = [claimOn('quiet'), claimOn('quiet')];
    const heard: boolean[] = [];
    const watch = await node.watch({ name: 'quiet' }, (mayGrant) => heard.push(mayGrant));
    // A new observer is notified once, because it may have missed a change, and then it is registered.
    await eventually('it is notified', () => heard.length > 0);
    await eventually('it is registered', async () => (await client.zcard('n:\u0001queue:quiet')) === 1);
    heard.length = 0;
    await fenceOf(first);
    expect(await node.withdraw(first, signal)).toBe(true);
    expect(await node.withdraw(first, signal)).toBe(false);
    await fenceOf(second, SHARED);
    expect(await node.withdraw(second, signal)).toBe(true);
    await fenceOf(first);
    expect(await node.release(first)).toBe(true);
    await eventually('the release is heard', () => heard.includes(true));
    // Two votes and two withdrawals, then a vote and a release: only the release frees the lock.
    expect(heard.filter((mayGrant) => mayGrant)).toHaveLength(1);
    expect(heard.at(-1)).toBe(true);
    await watch[Symbol.asyncDispose]();
  });
});

it('after a split vote, each claim is tried again soon, and at another time', async () => {
  await using stage = await startRedlockStage(3);
  const { store } = await stage.process();
  for (const [n, admin] of stage.admins.entries())
    await admin.set('holdfast:split', `180000000000000${n} other${n}#000000000000.1`, 'PX', 60_000);
  const delays: number[] = [];
  for (let n = 0; n < 30; n += 1) {
    const request = { ...asking(claimOn('split')), wait: true, fenceAbove: 0n };
    const outcome = await heard(() => store.claim(request));
    if (!outcome.granted) delays.push(outcome.retryAfterMs ?? -1);
  }
  expect(delays).toHaveLength(30);
  expect(Math.min(...delays)).toBeGreaterThan(0);
  // The delay grows with the time that the nodes have taken, which may be long on a busy machine. Without
  // a split vote it would be three seconds at least.
  expect(delays.toSorted((a, b) => a - b)[15]).toBeLessThan(3_000);
  expect(new Set(delays).size).toBeGreaterThan(5);
});
