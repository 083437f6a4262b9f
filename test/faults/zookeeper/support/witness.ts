import { setTimeout as sleep } from 'node:timers/promises';
import type { Hold, Locks } from '../../../../src/index.ts';
import type { ClaimRequest } from '../../../../src/store/store.ts';
import type { RawClient } from '../../../../src/stores/zookeeper/client.ts';
import { expectLostInTime as expectNotified, type Witness } from '../../../support/faults/lost-in-time.ts';
import { turns } from '../../../support/waiting/event-loop-turns.ts';

/** What most claims of these tests ask for. */
export const terms: Omit<ClaimRequest, 'name' | 'id'> = {
  mode: { kind: 'exclusive' },
  ttlMs: 60_000,
  wait: true,
  note: '',
  fenceAbove: 0n,
};

/** `first` takes the lock, `second` waits for it, and the ensemble is watched through `third`. */
export async function witness(first: Locks, second: Locks, third: RawClient, name: string): Promise<Witness> {
  const hold = await first.mutex(name).acquire();
  let lostAt: number | null = null;
  let removedAt: number | null = null;
  hold.signal.addEventListener('abort', () => {
    lostAt = performance.now();
  });
  const [node] = await nodesOf(third, name);
  third.exists(
    `/locks/${name}/${node}`,
    async () => {
      await turns();
      removedAt ??= performance.now();
    },
    () => {},
  );
  const next = second
    .mutex(name)
    .acquire({ waitMs: 120_000 })
    .then(async (other) => {
      await turns();
      return { hold: other, at: performance.now() };
    });
  // A test that fails before it awaits `next` must end with its own failure.
  next.catch(() => {});
  while (lostAt === null && (await nodesOf(third, name)).length < 2) await sleep(20);
  return { hold, lostAt: () => lostAt, removedAt: () => removedAt, next };
}

/** For a loss by time: the holder was notified before another could hold. */
export const expectLostInTime = (seen: Witness, next: { hold: Hold; at: number }): void =>
  expectNotified(seen, next, 'session');

/** The nodes in the queue of a lock, as the connected member knows them. */
export async function nodesOf(client: RawClient, name: string, root = '/locks'): Promise<readonly string[]> {
  return await new Promise((resolve) =>
    client.getChildren(`${root}/${name}`, (_error, children) => resolve(children ?? [])),
  );
}
