import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RedisNode } from '../../src/stores/quorum/redis-node.ts';
import { linkOf } from '../../src/stores/redis/client.ts';
import { startRedis } from '../support/servers/redis.ts';
import type { Server } from '../support/servers/server.ts';
import { heard, startRedlockStage } from './support/stage.ts';

let server: Server;
let client: Redis;
let node: RedisNode;
beforeAll(async () => {
  server = await startRedis();
  client = new Redis(server.url);
  node = new RedisNode(linkOf(client), { prefix: 'n:', label: 'the node', allowEviction: false }, false);
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

describe('what one node of a quorum votes', () => {
  it('takes a proposal above its counter, and gives one more than the counter otherwise', async () => {
    const far = nowUs() + 3_600_000_000n;
    expect(await fenceOf(claimOn('a'), { proposed: far })).toBe(far);
    expect(await fenceOf(claimOn('b'), { proposed: far })).toBe(far + 1n);
    expect(await fenceOf(claimOn('c'), { ...SHARED, proposed: 5n })).toBe(far + 2n);
    await client.del('n:\u0001fence');
  });

  it('gives its own time to a client whose clock is far behind', async () => {
    const before = nowUs();
    expect(await fenceOf(claimOn('late'), { proposed: 1n })).toBeGreaterThan(before - 2_000_000n);
  });

  it('keeps the fence of a claim that it has, and says who is in the way of another', async () => {
    const [own, other] = [claimOn('held'), claimOn('held')];
    const fence = await fenceOf(own);
    expect(await node.vote(asking(own), signal)).toEqual({ granted: true, fence, isKept: true });
    const refused = await node.vote(asking(other), signal);
    expect(refused).toMatchObject({ granted: false, kind: 'one', holder: own.id });
    await client.set('n:theirs', 'a value of theirs', 'PX', 60_000);
    expect(await node.vote(asking(claimOn('theirs')), signal)).toMatchObject({
      kind: 'foreign',
      holder: 'a value of theirs',
    });
  });

  it.each([{}, SHARED])(
    'raises the fence of a claim that it holds, and its counter with it (%j)',
    async (mode) => {
      const own = claimOn(`raised ${JSON.stringify(mode)}`);
      const fence = await fenceOf(own, { ...mode, note: '{"a":1}' });
      const raised = fence + 50_000_000n;
      expect(await node.merge(own, raised, signal)).toBe(raised);
      // A lower one changes nothing.
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

  it('does not raise the fence of a claim that it does not hold, or no longer, and leaves the holder alone', async () => {
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

  it('never gives two readers the same fence, however they are raised', async () => {
    const readers = [claimOn('many'), claimOn('many'), claimOn('many')];
    for (const reader of readers) await fenceOf(reader, SHARED);
    const wanted = nowUs() + 10_000_000n;
    const fences = await Promise.all(readers.map((reader) => node.merge(reader, wanted, signal)));
    expect(new Set(fences).size).toBe(3);
    await client.del('n:\u0001fence');
  });

  it('keeps others out no longer than the last of several holders, also after a longer claim was taken back', async () => {
    const [reader, unlucky] = [claimOn('shrunk'), claimOn('shrunk')];
    await fenceOf(reader, SHARED);
    await fenceOf(unlucky, { ...SHARED, ttlMs: 3_600_000 });
    expect(await client.pttl('n:shrunk')).toBeGreaterThan(3_000_000);
    expect(await node.withdraw(unlucky, signal)).toBe(true);
    // What another program looks at is the plain key alone.
    expect(await client.pttl('n:shrunk')).toBeLessThanOrEqual(60_000);
    expect(await node.read('shrunk')).toMatchObject([{ id: reader.id }]);
  });

  it('takes a claim back without waking those who wait, and a release wakes them', async () => {
    const [first, second] = [claimOn('quiet'), claimOn('quiet')];
    const heard: boolean[] = [];
    const watch = await node.watch({ name: 'quiet' }, (mayFree) => heard.push(mayFree));
    // Whoever begins to listen hears that something may have been missed.
    heard.length = 0;
    await fenceOf(first);
    expect(await node.withdraw(first, signal)).toBe(true);
    expect(await node.withdraw(first, signal)).toBe(false);
    await fenceOf(second, SHARED);
    expect(await node.withdraw(second, signal)).toBe(true);
    await fenceOf(first);
    expect(await node.release(first)).toBe(true);
    for (let tries = 0; tries < 100 && !heard.includes(true); tries += 1) await sleep(10);
    // Two votes and two withdrawals, then a vote and a release: only the last may let somebody go on.
    expect(heard.filter((mayFree) => mayFree)).toHaveLength(1);
    expect(heard.at(-1)).toBe(true);
    await watch[Symbol.asyncDispose]();
  });
});

it('after a split vote, everybody is told to come back at another time, and soon', async () => {
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
  expect(Math.max(...delays)).toBeLessThan(5_000);
  expect(new Set(delays).size).toBeGreaterThan(5);
});
