import type { Core } from '../core.ts';
import { AcquireTimeoutError } from '../errors.ts';
import { DEFAULTS } from '../options.ts';
import type { ClaimRef } from '../store/store.ts';
import { viewClaim } from '../view.ts';

/** The error for a wait that timed out. It names the holders if the store answers soon. */
export async function explainTimeout(
  core: Core,
  { name, id }: ClaimRef,
  waitedMs: number,
): Promise<AcquireTimeoutError> {
  try {
    const claims = await core.read(name, DEFAULTS.explainMs);
    const holders = claims.filter((claim) => claim.granted && claim.id !== id).map(viewClaim);
    const index = claims.filter((claim) => !claim.granted).findIndex((claim) => claim.id === id);
    const holderId = holders[0]?.id ?? '';
    const isOwn = core.renewals.holds.some(({ ref }) => ref.id === holderId);
    const self = !isOwn ? 'no' : core.isCallerInside(holderId) ? 'caller' : 'process';
    return new AcquireTimeoutError(name, waitedMs, holders, index < 0 ? null : index + 1, self);
  } catch {
    return new AcquireTimeoutError(name, waitedMs);
  }
}
