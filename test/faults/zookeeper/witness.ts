import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Hold, Locks } from '../../../src/index.ts';
import type { RawClient } from '../../../src/stores/zookeeper/client.ts';

/** Both sides of a lock that changes hands, on one clock (`performance.now`). */
export interface Witness {
  readonly hold: Hold;
  /** When the first holder's signal fired. */
  lostAt(): number | null;
  /** When the ensemble removed the first holder's node, as seen by a third party a little later. */
  removedAt(): number | null;
  /** Resolves when the next in line holds, to the time of it. */
  readonly next: Promise<{ hold: Hold; at: number }>;
}

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
    () => {
      removedAt ??= performance.now();
    },
    () => {},
  );
  const next = second
    .mutex(name)
    .acquire({ waitMs: 120_000 })
    .then((other) => ({ hold: other, at: performance.now() }));
  while ((await nodesOf(third, name)).length < 2) await sleep(20);
  return { hold, lostAt: () => lostAt, removedAt: () => removedAt, next };
}

/** For a loss by time: the holder was told before the ensemble could give the lock to another. */
export function expectToldInTime(seen: Witness, next: { hold: Hold; at: number }): void {
  const lostAt = seen.lostAt();
  expect(lostAt, 'the holder was never told').not.toBeNull();
  expect(lostAt ?? 0).toBeLessThanOrEqual(next.at);
  const removedAt = seen.removedAt();
  if (removedAt !== null) expect(lostAt ?? 0).toBeLessThanOrEqual(removedAt);
  expect(seen.hold.signal.reason).toMatchObject({ code: 'HOLD_LOST', how: 'session' });
  expect(next.hold.fence).toBeGreaterThan(seen.hold.fence);
}

/** What stands in the line of a lock, as the member that the client is connected to knows it. */
export async function nodesOf(client: RawClient, name: string, root = '/locks'): Promise<readonly string[]> {
  return await new Promise((resolve) =>
    client.getChildren(`${root}/${name}`, (_error, children) => resolve(children ?? [])),
  );
}

export async function until(
  what: string,
  isSo: () => Promise<boolean> | boolean,
  budgetMs = 15_000,
): Promise<void> {
  for (const end = performance.now() + budgetMs; performance.now() < end; await sleep(20))
    if (await isSo()) return;
  expect.fail(what);
}
