import { beforeAll, describe, expect, it } from 'vitest';
import { createLocks, type Hold, type Locks } from '../../src/index.ts';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { cleanups } from '../support/hooks/cleanups.ts';
import { type Ensemble, startEnsemble } from '../support/servers/zookeeper.ts';
import { until } from '../support/waiting/eventually.ts';

/** How a holder learns that its claim was evicted. */
const atTheEnd = cleanups();
let ensemble: Ensemble;
beforeAll(async () => {
  ensemble = await startEnsemble({ members: 1, maxSessionMs: 20_000 });
  atTheEnd(() => ensemble.stop());
});

function open(): Locks {
  const locks = createLocks(zookeeperStore(ensemble.client({ sessionMs: 5_000 })), { waitMs: 20_000 });
  atTheEnd(() => locks.close({ drainMs: 0 }));
  return locks;
}

const lossOf = (hold: Hold): unknown => (hold.signal.reason as { how?: unknown } | undefined)?.how;

describe.concurrent('a hold that is lost', () => {
  it('by an eviction is reported as taken, not as the end of the session', async () => {
    const hold = await open().mutex('evicted').acquire({ renewEveryMs: 200 });
    expect(await open().evict('evicted', { id: hold.id })).toBe(true);
    await until('the holder was not notified', () => hold.signal.aborted);
    expect(lossOf(hold)).toBe('taken');
  });
});
