import type { Etcd3 } from 'etcd3';
import { expect } from 'vitest';
import type { Hold, Locks } from '../../../src/index.ts';

/** Both sides of a lock that changes hands, on one clock (`performance.now`). */
export interface Witness {
  readonly hold: Hold;
  /** When the first holder's signal fired. */
  lostAt(): number | null;
  /** When the cluster removed the first holder's key, as seen by a third party a little later. */
  removedAt(): number | null;
  /** Resolves when the next in line holds, to the time of it. */
  readonly next: Promise<{ hold: Hold; at: number }>;
}

/** `first` takes the lock, `second` waits for it, and the cluster is watched through `third`. */
export async function witness(
  first: Locks,
  second: Locks,
  third: Etcd3,
  name: string,
  ttlMs: number,
): Promise<Witness> {
  const hold = await first.mutex(name).acquire({ ttlMs });
  let lostAt: number | null = null;
  let removedAt: number | null = null;
  hold.signal.addEventListener('abort', () => {
    lostAt = performance.now();
  });
  const watcher = await third.watch().prefix(`holdfast/${name}/`).create();
  watcher.on('delete', (kv) => {
    if (kv.key.toString().endsWith(hold.id)) removedAt ??= performance.now();
  });
  const next = second
    .mutex(name)
    .acquire({ waitMs: 120_000 })
    .then(async (other) => {
      const at = performance.now();
      await watcher.cancel().catch(() => {});
      return { hold: other, at };
    });
  return { hold, lostAt: () => lostAt, removedAt: () => removedAt, next };
}

/** For a loss by time: the holder was told before the cluster could give the lock to another. */
export function expectToldInTime(seen: Witness, next: { hold: Hold; at: number }): void {
  const lostAt = seen.lostAt();
  expect(lostAt, 'the holder was never told').not.toBeNull();
  expect(lostAt ?? 0).toBeLessThanOrEqual(next.at);
  const removedAt = seen.removedAt();
  if (removedAt !== null) expect(lostAt ?? 0).toBeLessThanOrEqual(removedAt);
  expect(seen.hold.signal.reason).toMatchObject({ code: 'HOLD_LOST', how: 'expired' });
  expect(next.hold.fence).toBeGreaterThan(seen.hold.fence);
}

/**
 * The same where a leader wakes up. The servers before 3.4.31 have a bug (#15247) by which it then revokes leases that live on at its successor: no loss by time but interference, which
 * the holder learns of within one renewal.
 */
export function expectToldAfterSleep(
  seen: Witness,
  next: { hold: Hold; at: number },
  renewalMs: number,
): void {
  if ((seen.hold.signal.reason as { how?: unknown } | undefined)?.how !== 'taken') {
    expectToldInTime(seen, next);
    return;
  }
  expect((seen.lostAt() ?? 0) - (seen.removedAt() ?? next.at)).toBeLessThan(renewalMs);
  expect(next.hold.fence).toBeGreaterThan(seen.hold.fence);
}
