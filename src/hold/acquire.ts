import type { Core } from '../core.ts';
import { Attempt } from './attempt.ts';
import type { Grant } from './grant.ts';
import type { Want } from './want.ts';

/** One try. `null` when it is held by another; rejects with a `StoreError` when nobody knows. */
export async function tryAcquire<H>(
  core: Core,
  want: Want,
  give: (core: Core, grant: Grant) => H,
): Promise<H | null> {
  const attempt = begin(core, want);
  try {
    const grant = await attempt.askOnce();
    if (grant !== null) return give(core, grant);
    attempt.announceRefusal('held', null);
    return null;
  } catch (error) {
    attempt.abandon(error);
    throw error;
  } finally {
    attempt.end();
  }
}

/**
 * Waits until it is granted, for `waitMs` at most, and resolves to what `give` makes of the grant. Not async itself: each frame that a waiter keeps counts
 * when ten thousand wait, and each promise when nobody does.
 */
export function acquire<H>(core: Core, want: Want, give: (core: Core, grant: Grant) => H): Promise<H> {
  const attempt = begin(core, want);
  return new Promise((resolve, reject) => {
    const onGranted = (grant: Grant): void => {
      resolve(give(core, grant));
      // Whoever has waited goes on first.
      queueMicrotask(() => attempt.end());
    };
    const onFailed = (error: unknown): void => {
      attempt.abandon(error);
      attempt.end();
      reject(error);
    };
    attempt.askPatiently((grant) => {
      if (grant === null) {
        attempt.waitInLine(onGranted).catch(onFailed);
        return;
      }
      attempt.end();
      resolve(give(core, grant));
    }, onFailed);
  });
}

/** For whoever has to do with the grant itself. */
export function asGrant(_core: Core, grant: Grant): Grant {
  return grant;
}

function begin(core: Core, want: Want): Attempt {
  core.assertOpen();
  want.settings.signal?.throwIfAborted();
  return new Attempt(core, want);
}
