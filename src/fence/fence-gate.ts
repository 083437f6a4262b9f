import { InvalidArgumentError, StaleFenceError } from '../errors.ts';

/**
 * The resource's side of fencing: it remembers the greatest fence that it has seen for each resource, and lets no smaller one through. A holder that was paused
 * past its lease, and does not know it yet, is stopped here.
 */
export interface FenceGate {
  /**
   * Resolves when this fence is the greatest so far, or the same again; that is remembered. Rejects with `StaleFenceError` when a greater one was seen. Only the
   * fence of an exclusive hold may be given: two readers have two fences.
   */
  check(resource: string, fence: bigint): Promise<void>;
}

/** What a 64-bit column can hold. Every fence of every store fits. */
const FENCE_MAX = 2n ** 63n - 1n;

export function checkFence(resource: string, fence: bigint): void {
  // Lone surrogates cannot be encoded: databases would store another name, the same for all of them.
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
