import { afterEach, expect, it } from 'vitest';
import type { Locks } from '../../src/index.ts';
import { slotOf } from '../../src/stores/redis/cluster/slots.ts';
import { LIBRARIES } from '../support/clients/redis-clients.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { nameAt, startClusterStage } from './support/cluster-stage.ts';
import { collectWarnings } from './support/collect-warnings.ts';

const stage = await useStage(startClusterStage());
afterEach(() => stage.leaveAll());

/** Resolves when `waiter` has waited for a lock that `holder` held. Its slot is then subscribed. */
async function contend(holder: Locks, waiter: Locks, name: string): Promise<void> {
  const hold = await holder.mutex(name).acquire();
  const waiting = later(waiter.mutex(name).acquire());
  await eventually('it waits', async () => (await holder.inspect(name)).waiters.length === 1);
  await hold.release();
  await (await waiting).release();
}

it.each(LIBRARIES)(
  'closing a store with many subscribed slots causes no warning, under %s',
  async (library) => {
    const warnings = collectWarnings();
    const [a, b] = [await stage.locks(library), await stage.locks(library)];
    const names = Array.from({ length: 12 }, (_, n) => nameAt(0, `${library} ${n}`));
    await Promise.all(names.map((name) => contend(a, b, name)));
    await stage.leaveAll();
    expect(await warnings()).toEqual([]);
  },
);

it.each(LIBRARIES)('channels of slots that are no longer used are left, under %s', async (library) => {
  const [a, b] = [await stage.locks(library), await stage.locks(library)];
  const [name, other] = [nameAt(0, `left ${library}`), nameAt(0, `kept ${library}`)];
  // This one keeps the connection to the node open.
  const kept = await a.mutex(other).acquire();
  const waiting = later(b.mutex(other).acquire({ waitMs: 60_000 }));
  const channels = async (): Promise<number> => {
    const all = await stage.cluster.admin(0).call('PUBSUB', 'SHARDCHANNELS');
    const slot = slotOf(`holdfast:${name}`);
    return (all as string[]).filter((each) => slotOf(each) === slot && each.includes('wake:')).length;
  };
  for (let round = 0; round < 2; round += 1) {
    await contend(a, b, name);
    expect(await channels()).toBeGreaterThan(0);
    // More slots than stores that are kept, so that the one of the name is dropped.
    for (let n = 0; n < 3_000; n += 300) {
      const names = Array.from({ length: 300 }, (_, m) => `${round} ${library} ${n + m}`);
      await Promise.all(names.map((each) => b.mutex(each).run(() => {})));
    }
    await eventually('its channel is left', async () => (await channels()) === 0);
  }
  await kept.release();
  await (await waiting).release();
});
