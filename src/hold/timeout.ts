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
    const self = core.renewals.holds.some(({ ref }) => ref.id === holders[0]?.id)
      ? core.isCallerInside(name)
        ? 'caller'
        : 'process'
      : 'no';
    return new AcquireTimeoutError(name, waitedMs, holders, index < 0 ? null : index + 1, self);
  } catch {
    return new AcquireTimeoutError(name, waitedMs);
  }
}
