import { expect, it } from 'vitest';
import { openLocks } from '../../../src/index.ts';
import { delayByStoppedWaiter } from '../../support/process/stopped-waiter.ts';
import { startRedisNodes } from '../../support/servers/redis-nodes.ts';

it('a paused waiter delays the queue by 6 s at most, also if the releasing process has ended', async () => {
  await using nodes = await startRedisNodes(3);
  const url = `redlock://${nodes.servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`;
  const locks = await openLocks(url);
  // Six seconds, and room for a busy machine. A claim keeps its position for half a minute without asking.
  expect(await delayByStoppedWaiter(url, locks, 'passed on')).toBeLessThan(9_000);
  await locks.close();
}, 120_000);
