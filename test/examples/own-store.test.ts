import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { slowLog } from '../../examples/slow-log-store.ts';
import { createLocks, memoryStore } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import { describeConformance } from '../support/conformance/describe-conformance.ts';
import { connectionTo } from '../support/memory/memory-connection.ts';

const clock = virtualClock();
const store = memoryStore({ clock });

describeConformance('examples/slow-log-store.ts', {
  traits: { lifetime: 'lease', ordered: true, counting: true, remembers: true },
  open: async (options) => {
    const inner = connectionTo(options === undefined ? store : memoryStore({ clock, ...options }));
    return slowLog(inner, 1_000, () => {});
  },
  pass: (ms) => clock.advance(ms),
  timeIsFree: true,
});

it('examples/slow-log-store.ts reports the commands that take long, and passes grants on', async () => {
  await using server = await startRedis();
  const client = new Redis(server.url);
  const slow: string[] = [];
  const slower: string[] = [];
  const inner = slowLog(redisStore(client), 300, (line) => slow.push(line));
  const locks = createLocks(slowLog(inner, 60_000, (line) => slower.push(line)));
  const hold = await locks.mutex('a').acquire();
  const waiting = locks.mutex('a').acquire();
  await hold.release();
  expect((await waiting).fence).toBeGreaterThan(hold.fence);
  // Long: the pause goes on while this process is stalled before the release.
  await client.call('CLIENT', 'PAUSE', '3000');
  await (await waiting).release();
  expect(slow).toContainEqual(expect.stringMatching(/^release a took \d{3,} ms$/));
  expect(slower).toEqual([]);
  await locks.close();
  client.disconnect();
});
