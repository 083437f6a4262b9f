import type { Locks } from '../locks.ts';
import { codeOf } from '../util/error-code.ts';
import type { ClaimView, LockView } from '../view.ts';
import { badRequest } from './answers.ts';
import type { ClaimSummary, EvictAnswer, EvictOutcome, EvictRequest, LockUse } from './api.ts';
import { claimSummary } from './claim-summary.ts';
import { nameIn } from './lock-name.ts';
import type { LockReads } from './lock-reads.ts';
import { HOLDERS_SHOWN } from './lock-summary.ts';

const USES: readonly unknown[] = ['lock', 'once', 'rateLimit', 'schedule'];
/** Claims of other programs have ids of any length. */
const ID_MAX = 8_192;

export interface CheckedEvict extends EvictRequest {
  readonly use: LockUse;
}

/** Throws `RefusedError` for a request that is not complete, or that the operator has not confirmed. */
export function checkEvict(body: Readonly<Record<string, unknown>>): CheckedEvict {
  const { use = 'lock', id, fence = null, confirm } = body;
  const name = nameIn(body.name);
  if (!USES.includes(use)) throw badRequest('use must be lock, once, rateLimit or schedule.');
  if (typeof id !== 'string' || id === '' || id.length > ID_MAX) throw badRequest('id must be text.');
  const isFence = typeof fence === 'string' && /^\d{1,30}$/.test(fence);
  if (fence !== null && !isFence) throw badRequest('fence must be decimal text, or null.');
  if (confirm !== name) throw badRequest('confirm must be the name of the lock.');
  return { name, use: use as LockUse, id, fence: fence as string | null, confirm };
}

export interface Eviction extends EvictAnswer {
  /** Of the claim. */
  readonly owner: string | null;
}

/**
 * Takes the claim away, if it is still what the operator was shown: the same id, and the same fence.
 * The store compares the id in the same step, so a newer claim is never taken away.
 */
export async function evictClaim(locks: Locks, reads: LockReads, request: CheckedEvict): Promise<Eviction> {
  const { name, use, id, fence } = request;
  let owner: string | null = null;
  try {
    const { view, readAtMs } = await reads.now(name, use);
    const claim = [...view.holders, ...view.waiters].find((each) => each.id === id);
    owner = claim?.owner ?? null;
    if (claim === undefined) return { ...answerOf('gone', view, readAtMs), owner };
    if ((claim.fence?.toString() ?? null) !== fence) return { ...answerOf('changed', view, readAtMs), owner };
    const evicted = await locks.evict(name, { id }, { use });
    const after = await reads.now(name, use).catch(() => null);
    const outcome = evicted ? 'evicted' : 'gone';
    if (after === null) return { outcome, holders: null, owner };
    return { ...answerOf(outcome, after.view, after.readAtMs), owner };
  } catch (error) {
    // An unsupported operation is refused before anything is done.
    const outcome = codeOf(error) === 'UNSUPPORTED' ? 'unsupported' : 'failed';
    return { outcome, holders: null, owner };
  }
}

function answerOf(outcome: EvictOutcome, view: LockView, readAtMs: number): EvictAnswer {
  const summary = (claim: ClaimView): ClaimSummary => claimSummary(claim, readAtMs);
  return { outcome, holders: view.holders.slice(0, HOLDERS_SHOWN).map(summary) };
}
