import type { Core } from '../core.ts';
import type { ClaimRef } from '../store/store.ts';
import { Grant } from './grant.ts';
import { elapsedMs, type Instant, trustedMs } from './validity.ts';
import type { Want } from './want.ts';

/** What became of a claim that was granted. */
interface Granted {
  readonly fence: bigint;
  readonly validForMs: number;
}

/** Makes a grant of an outcome, or `null` when the answer came too late to be trusted. */
export function grantOf(
  core: Core,
  ref: ClaimRef,
  want: Want,
  outcome: Granted,
  sent: Instant,
): Grant | null {
  if (outcome.fence > core.record.fenceSeen) core.record.fenceSeen = outcome.fence;
  const remainingMs = trustedMs(outcome.validForMs) - elapsedMs(core.clock, sent);
  if (remainingMs <= 0 && want.detached !== true) return null;
  const grant = new Grant(core, ref, want.mode, want.settings, outcome.fence, sent, outcome.validForMs);
  if (want.detached === true) {
    grant.detach();
    return grant;
  }
  core.grants.add(grant);
  core.keepalive.start(grant, sent.monotonicMs, outcome.validForMs, remainingMs);
  return grant;
}
