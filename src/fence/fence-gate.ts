import { InvalidArgumentError, StaleFenceError } from '../errors.ts';

/**
 * The resource's side of fencing. It remembers the greatest fence for each resource and refuses a
 * smaller one. So it stops a holder that was paused for longer than its lease and does not know that
 * the lock is lost.
 */
export interface FenceGate {
  /**
   * Remembers this fence and resolves, when no greater one was seen; the same fence is accepted again.
   * Rejects with `StaleFenceError` when a greater one was seen. Only the fence of an exclusive hold may be
   * given: two readers have two fences.
   */
  check(resource: string, fence: bigint): Promise<void>;
}

/** The greatest value of a 64-bit column. The fences of all stores fit. */
const FENCE_MAX = 2n ** 63n - 1n;

export function checkFence(resource: string, fence: bigint): void {
  // Lone surrogates cannot be encoded: a database would store the same character for all of them.
  if (typeof resource !== 'string' || resource === '' || /\p{Cs}/u.test(resource)) {
    throw new InvalidArgumentError('resource', 'must be a string that is not empty, without lone surrogates');
  }
  if (typeof fence !== 'bigint' || fence < 0n || fence > FENCE_MAX) {
    throw new InvalidArgumentError('fence', 'must be the fence of a hold, a bigint');
  }
}

export function assertNotStale(resource: string, fence: bigint, latest: bigint): void {
  if (fence < latest) throw new StaleFenceError(resource, fence, latest);
}
