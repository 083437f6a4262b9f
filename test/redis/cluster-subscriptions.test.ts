import { afterEach, expect, it } from 'vitest';
import type { Locks } from '../../src/index.ts';
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
