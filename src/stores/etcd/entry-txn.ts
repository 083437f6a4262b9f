import type { Claim } from './claim.ts';
import type { Compare, RequestOp, TxnRequest } from './client.ts';
import { lookAhead } from './line.ts';

/**
 * The transactions that create a claim. The free lock is the usual case, so it is the least work: one comparison, one put. Putting a key that is there already changes neither its
 * create revision nor its place in line, so every one of them may be sent twice.
 */

/** Takes the lock when nothing stands in the way; otherwise leaves no trace and sees what does. Not for permits, which must be counted. */
export function tryTxn(claim: Claim, note: string): TxnRequest {
  return {
    compare: free(claim),
    success: [put(claim, note)],
    failure: [{ request_range: lookAhead(claim.lock, claim.mode, null) }],
  };
}

/** Takes the lock when nothing stands in the way; otherwise stands in line and sees what is ahead. */
export function standTxn(claim: Claim, note: string): TxnRequest {
  const { lock, mode } = claim;
  const stand: RequestOp[] = [put(claim, note), { request_range: lookAhead(lock, mode, null) }];
  // An exclusive claim finds itself at the end of what it looks at; the others do not see themselves, or not all behind them.
  if (mode.kind !== 'exclusive') {
    stand.push({ request_range: { key: claim.key, keys_only: true } });
    stand.push({ request_range: { key: lock.from, range_end: lock.end, count_only: true } });
  }
  return mode.kind === 'permits'
    ? { compare: [], success: stand, failure: [] }
    : { compare: free(claim), success: [put(claim, note)], failure: stand };
}

function put({ key, lease }: Claim, note: string): RequestOp {
  return { request_put: { key, value: Buffer.from(note), lease: lease.id } };
}

/** True when there is no key in the range: one that is not there has create revision 0. */
function free({ lock, mode, key }: Claim): Compare[] {
  const nobody: Compare = {
    target: 'Create',
    result: 'Equal',
    key: lock.from,
    range_end: lock.blockingEnd(mode),
    create_revision: '0',
  };
  if (mode.kind === 'exclusive') return [nobody];
  // A reader's own key does not stand in its way, but one that is there already has a revision of its own.
  return [nobody, { target: 'Create', result: 'Equal', key, create_revision: '0' }];
}
