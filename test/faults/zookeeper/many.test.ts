import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import { zookeeperStore } from '../../../src/stores/zookeeper/index.ts';
import { startEnsemble } from '../../support/servers/zookeeper.ts';
import { nodesOf, until } from './witness.ts';

it('row 18: ten thousand waiters of one process cost no hold, and are served in order without reading the line for each', {
  timeout: 150_000,
}, async () => {
  // The session that a store has by default; the short ones of other tests do not outlast ten thousand on a busy machine.
  await using ensemble = await startEnsemble({ members: 1, tickMs: 2_000 });
  const direct = ensemble.client({ sessionMs: 30_000 });
  const locks = createLocks(zookeeperStore(ensemble.client({ sessionMs: 30_000 })), { waitMs: 120_000 });
  const lock = locks.mutex('crowd');
  const blocker = await lock.acquire();
  const served: number[] = [];
  const line = Array.from({ length: 10_000 }, async (_, n) => {
    const hold = await lock.acquire();
    served.push(n);
    await hold.release();
  });
  const ended = Promise.allSettled(line);
  await until('not all are in line', async () => (await nodesOf(direct, 'crowd')).length === 10_001, 40_000);
  // On a busy machine ten thousand take a while to settle: until then a release would wait behind them.
  await sleep(3_000);
  const isCalm = async (): Promise<boolean> => {
    const startedMs = performance.now();
    await blocker.extend().catch(() => {});
    return performance.now() - startedMs < 300;
  };
  await until('it does not settle', isCalm, 40_000);
  blocker.assertHeld();
  await blocker.release();
  // A list of ten thousand for each of them would take ten times as long.
  await until('the line does not move', () => served.length >= 300, 20_000);
  expect(served).toEqual(served.map((_, n) => n));
  await locks.close({ drainMs: 0 });
  await ended;
  await until('places stay', async () => (await nodesOf(direct, 'crowd')).length === 0, 20_000);
});
