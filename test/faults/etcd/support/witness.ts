import type { Etcd3 } from 'etcd3';
import { expect } from 'vitest';
import type { Hold, Locks } from '../../../../src/index.ts';
import { expectLostInTime as expectNotified, type Witness } from '../../../support/faults/lost-in-time.ts';
import { turns } from '../../../support/waiting/event-loop-turns.ts';

interface EtcdWitness extends Witness {
  /** The time left of the first hold when it was granted. */
  readonly grantedMs: number;
}

/** `first` takes the lock, `second` waits for it, and the cluster is watched through `third`. */
export async function witness(
  first: Locks,
  second: Locks,
  third: Etcd3,
  name: string,
  ttlMs: number,
): Promise<EtcdWitness> {
  const hold = await first.mutex(name).acquire({ ttlMs });
  const grantedMs = hold.remainingMs;
  let lostAt: number | null = null;
  let removedAt: number | null = null;
  hold.signal.addEventListener('abort', () => {
    lostAt = performance.now();
  });
  const watcher = await third.watch().prefix(`holdfast/${name}/`).create();
  watcher.on('delete', async (kv) => {
    if (!kv.key.toString().endsWith(hold.id)) return;
    await turns();
    removedAt ??= performance.now();
  });
  const next = second
    .mutex(name)
    .acquire({ waitMs: 120_000 })
    .then(async (other) => {
      await turns();
      const at = performance.now();
      await watcher.cancel().catch(() => {});
      return { hold: other, at };
    });
  // A test that fails before it awaits `next` must end with its own failure.
  next.catch(() => {});
  return { hold, grantedMs, lostAt: () => lostAt, removedAt: () => removedAt, next };
}

/** For a loss by time: the holder was notified before another could hold. */
export const expectLostInTime = (seen: Witness, next: { hold: Hold; at: number }): void =>
  expectNotified(seen, next, 'expired');

/**
 * The same after a paused leader resumed. Servers before 3.4.31 have a bug (#15247): that leader
 * revokes leases that live on at its successor. Such a loss is not one by time, and the holder
 * learns of it within one renewal.
 */
export function expectNotifiedAfterPause(
  seen: Witness,
  next: { hold: Hold; at: number },
  renewalMs: number,
): void {
  if ((seen.hold.signal.reason as { how?: unknown } | undefined)?.how !== 'taken') {
    expectLostInTime(seen, next);
    return;
  }
  expect((seen.lostAt() ?? 0) - (seen.removedAt() ?? next.at)).toBeLessThan(renewalMs);
  expect(next.hold.fence).toBeGreaterThan(seen.hold.fence);
}
