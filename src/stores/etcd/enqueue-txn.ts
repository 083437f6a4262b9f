import type { Claim } from './claim.ts';
import type { Compare, RequestOp, TxnRequest } from './client.ts';
import { lookAhead, lookRanges } from './queue.ts';

/**
 * The transactions that create and grant a claim. A free lock is the usual case and costs least:
 * one comparison and one put. Each transaction may be sent twice, because a key that exists is not
 * put again. A second put that arrives late would move a hold back to the lease with which the
 * claim entered the queue.
 */

/**
 * Takes the lock if it is free. Otherwise reads the claims ahead and its own key and, if it
 * `enters`, enters the queue and counts it. For permits claims must be counted, so they always enter.
 */
export function enqueueTxn(claim: Claim, note: string, enters: boolean): TxnRequest {
  const { lock, mode, key } = claim;
  const reads: RequestOp[] = [
    { request_range: lookAhead(lock, mode, null) },
    { request_range: { key, keys_only: true } },
  ];
  const enqueue: RequestOp[] = [
    { request_txn: { compare: [isAbsent(key)], success: [put(claim, note)], failure: [] } },
    ...reads,
    { request_range: { key: lock.from, range_end: lock.end, count_only: true } },
  ];
  return mode.kind === 'permits'
    ? { compare: [], success: enqueue, failure: [] }
    : { compare: isFree(claim), success: [put(claim, note)], failure: enters ? enqueue : reads };
}

/**
 * Moves an exclusive claim to the lease of a hold if nothing is ahead of it; otherwise reads
 * `lookRanges`. So one round trip shows that the claim is granted and gives it the time of a hold.
 */
export function takeTxn(claim: Claim, revision: bigint, leaseId: string): TxnRequest {
  const { key, lock } = claim;
  return {
    compare: [
      ...isUnmoved(claim),
      {
        target: 'Create',
        result: 'Greater',
        key: lock.from,
        range_end: lock.end,
        create_revision: String(revision - 1n),
      },
    ],
    success: [{ request_put: { key, lease: leaseId, ignore_value: true } }],
    failure: lookRanges(claim, revision).map((range) => ({ request_range: range })),
  };
}

function put({ key, lease }: Claim, note: string): RequestOp {
  return { request_put: { key, value: Buffer.from(note), lease: lease.id } };
}

/** True when the range has no key: the create revision of a missing key is 0. */
function isFree({ lock, mode, key }: Claim): Compare[] {
  const noKey: Compare = {
    target: 'Create',
    result: 'Equal',
    key: lock.from,
    range_end: lock.blockingEnd(mode),
    create_revision: '0',
  };
  if (mode.kind === 'exclusive') return [noKey];
  // The range that blocks a shared claim does not include its own key. If that key exists, an
  // earlier request has created it.
  return [noKey, isAbsent(key)];
}

/**
 * True when nothing has written to the key since. A request that arrives late then cannot move the
 * claim back to a lease that it has left.
 */
export function isUnmoved({ key, revision, modRevision }: Claim): Compare[] {
  return [
    { target: 'Create', result: 'Equal', key, create_revision: String(revision) },
    { target: 'Mod', result: 'Equal', key, mod_revision: String(modRevision) },
  ];
}

function isAbsent(key: Buffer): Compare {
  return { target: 'Create', result: 'Equal', key, create_revision: '0' };
}
