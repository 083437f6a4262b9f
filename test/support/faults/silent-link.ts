import { expect } from 'vitest';
import type { Hold, Locks } from '../../../src/index.ts';
import type { FaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { turns } from '../waiting/event-loop-turns.ts';

/** When the holder learns of the loss, in ms of `performance.now()`. */
export function lostAt(hold: Hold): () => number {
  let atMs = Number.POSITIVE_INFINITY;
  hold.signal.addEventListener('abort', () => {
    atMs = performance.now();
  });
  return () => atMs;
}

interface SilentLink {
  /** The only way to the server for `cutOff`. */
  readonly proxy: FaultProxy;
  readonly cutOff: Locks;
  readonly others: Locks;
  /** A part of the names of the locks. */
  readonly label: string;
}

/**
 * On a link that drops every packet, the holder is notified before another can hold. Its process
 * keeps running, and acquires again when the link is back.
 */
export async function expectLossInTime({ proxy, cutOff, others, label }: SilentLink): Promise<void> {
  const name = `hole-${label}`;
  const hold = await cutOff.mutex(name).acquire();
  const lost = lostAt(hold);
  proxy.drop('both');
  const next = await others.mutex(name).acquire();
  await turns();
  expect(lost()).toBeLessThanOrEqual(performance.now());
  expect(() => hold.assertHeld()).toThrow(expect.objectContaining({ code: 'HOLD_LOST', how: 'expired' }));
  expect(next.fence).toBeGreaterThan(hold.fence);

  // A command without a reply ends at its time limit, with an unknown outcome.
  const startedMs = performance.now();
  await expect(cutOff.mutex(`other-${label}`).acquire({ waitMs: 700 })).rejects.toMatchObject({
    code: 'STORE',
  });
  expect(performance.now() - startedMs).toBeLessThan(10_000);
  proxy.pass();
  expect(await next.release()).toBe(true);
  const again = await cutOff.mutex(name).acquire();
  expect(again.fence).toBeGreaterThan(next.fence);
  await again.release();
}
