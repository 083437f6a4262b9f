import { expect, it } from 'vitest';
import { openLocks } from '../../../src/index.ts';
import { delayByStoppedWaiter } from '../../support/process/stopped-waiter.ts';
import { startRedisCluster } from '../../support/servers/redis-cluster.ts';

it('a paused waiter delays the queue by 6 s at most, also if the releasing process has ended', async () => {
  await using cluster = await startRedisCluster();
  const locks = await openLocks(cluster.url);
  // Six seconds, and room for a busy machine. A claim keeps its position for half a minute without asking.
  expect(await delayByStoppedWaiter(cluster.url, locks, 'passed on')).toBeLessThan(9_000);
  await locks.close();
}, 120_000);
