import type { Core } from '../core.ts';
import { AcquireTimeoutError } from '../errors.ts';
import { DEFAULTS } from '../options.ts';
import type { ClaimRef } from '../store/store.ts';
import { viewClaim } from '../view.ts';

/** Says who holds the lock, if that can be found out soon. */
export async function explainTimeout(
  core: Core,
  { name, id }: ClaimRef,
  waitedMs: number,
): Promise<AcquireTimeoutError> {
  try {
    const claims = await core.read(name, DEFAULTS.explainMs);
    const holders = claims.filter((claim) => claim.granted && claim.id !== id).map(viewClaim);
    const place = claims.filter((claim) => !claim.granted).findIndex((claim) => claim.id === id);
    const isOurs = core.grants.all.some(({ ref }) => ref.id === holders[0]?.id);
    return new AcquireTimeoutError(name, waitedMs, holders, place < 0 ? null : place + 1, isOurs);
  } catch {
    return new AcquireTimeoutError(name, waitedMs);
  }
}
