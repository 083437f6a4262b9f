import type { Lockable } from '../../../src/index.ts';

export interface ServedWaiters {
  /** The numbers of the waiters that have held the lock, in the order of their grants. */
  readonly served: readonly number[];
  readonly waiters: readonly Promise<void>[];
}

/** Starts waiters that are numbered in the order of their calls. Each acquires the lock and releases it. */
export function startWaiters(lock: Pick<Lockable, 'acquire'>, count: number): ServedWaiters {
  const served: number[] = [];
  const waiters = Array.from({ length: count }, async (_, n) => {
    const hold = await lock.acquire();
    served.push(n);
    await hold.release();
  });
  return { served, waiters };
}
