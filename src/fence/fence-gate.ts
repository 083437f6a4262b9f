import { InvalidArgumentError, StaleFenceError } from '../errors.ts';

/**
 * Fencing on the side of the resource: remembers the greatest fence for each resource and refuses
 * smaller ones. This stops a holder that was paused for longer than its lease and does not know
 * that the lock is lost.
 */
export interface FenceGate {
  /**
   * Resolves and remembers this fence unless a greater one was seen; then rejects with
   * `StaleFenceError`. The same fence is accepted again. Pass only the fence of an exclusive hold:
   * readers that hold together have different fences, and the gate would refuse the earlier one.
   */
  check(resource: string, fence: bigint): Promise<void>;
}

/** The greatest value of a signed 64-bit column; no store issues a greater fence. */
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
