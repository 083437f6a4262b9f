import type { Core } from '../core.ts';
import { Attempt } from './attempt.ts';
import type { Grant } from './grant.ts';
import type { Want } from './want.ts';

/** What a caller makes of a grant. */
type Give<H> = (core: Core, grant: Grant) => H;

/** One try. `null` when it is held by another; rejects with a `StoreError` when nobody knows. */
export function tryAcquire<H>(core: Core, want: Want, give: Give<H>): Promise<H | null> {
  const attempt = new Attempt(core, want);
  return new Promise((resolve) => {
    attempt.once((grant) => resolve(grant && give(core, grant)), resolve);
  });
}

/**
 * Waits until it is granted, for `waitMs` at most. Not async itself: each frame that a waiter keeps counts when ten thousand wait, and each promise when
 * nobody does.
 */
export function acquire<H>(core: Core, want: Want, give: Give<H>): Promise<H> {
  const attempt = new Attempt(core, want);
  return new Promise((resolve) => {
    attempt.untilGranted((grant) => resolve(give(core, grant)), resolve);
  });
}

/** For whoever has to do with the grant itself. */
export function asGrant(_core: Core, grant: Grant): Grant {
  return grant;
}
