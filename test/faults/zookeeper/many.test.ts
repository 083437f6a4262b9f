import { expect, it } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import type { RawClient } from '../../../src/stores/zookeeper/client.ts';
import { zookeeperStore } from '../../../src/stores/zookeeper/index.ts';
import { startEnsemble } from '../../support/servers/zookeeper.ts';
import { until } from '../../support/waiting/eventually.ts';
import { startWaiters } from '../../support/waiting/served.ts';

/**
 * Much shorter than a busy machine needs to answer and process ten thousand claims that are sent at
 * once.
 */
const SESSION_MS = 10_000;

/** The greatest number of requests that were pending at the same time. */
function mostWaiting(client: RawClient): { readonly most: number } {
  const { connectionManager: manager } = client as unknown as {
    connectionManager: { queue(...args: unknown[]): void; pendingQueue: unknown[] };
  };
  const seen = { most: 0 };
  const queue = manager.queue;
  manager.queue = function watched(...args: unknown[]): void {
    queue.apply(this, args);
    seen.most = Math.max(seen.most, manager.pendingQueue.length);
  };
  return seen;
}

const lengthOf = (client: RawClient, name: string): Promise<number> =>
  new Promise((resolve) =>
    client.exists(`/locks/${name}`, (_error, stat) =>
      resolve((stat as { readonly numChildren?: number } | null)?.numChildren ?? -1),
    ),
  );

it('row 18: ten thousand waiters of one process cost no hold, and are served in order', {
  timeout: 120_000,
}, async () => {
  await using ensemble = await startEnsemble({ members: 1, maxSessionMs: SESSION_MS });
  const direct = ensemble.client({ sessionMs: SESSION_MS });
  const client = ensemble.client({ sessionMs: SESSION_MS });
  const waiting = mostWaiting(client);
  const locks = createLocks(zookeeperStore(client), { waitMs: 120_000 });
  const lock = locks.mutex('crowd');
  const blocker = await lock.acquire();
  const { served, waiters } = startWaiters(lock, 10_000);
  const ended = Promise.allSettled(waiters);
  await until('not all are in the queue', async () => (await lengthOf(direct, 'crowd')) === 10_001, 40_000);
  // A renewal had to wait for at most this many answers, and the crowd did not cost the hold.
  expect(waiting.most).toBeLessThan(600);
  blocker.assertHeld();
  await blocker.release();
  // With a read of the whole queue for each waiter, this would take ten times as long.
  await until('the queue does not move', () => served.length >= 300, 20_000);
  expect(served).toEqual(served.map((_, n) => n));
  await locks.close({ drainMs: 0 });
  await ended;
  await until('nodes stay', async () => (await lengthOf(direct, 'crowd')) === 0, 20_000);
});
