import type { Core } from '../core.ts';
import { DEFAULTS } from '../options.ts';
import type { ClaimRef } from '../store/store.ts';
import { isStoreError } from './command.ts';
import { backoff, pause } from './pause.ts';

const RETRY = { min: 100, max: 5_000 };

/**
 * Removes a claim that nobody wants any more, in the background: after an aborted or timed-out wait, an unknown outcome, a late grant. Tried
 * until the store answers or the claim must have run out by itself.
 */
export function cleanUp(core: Core, ref: ClaimRef, ttlMs: number): void {
  core.background(removeQuietly(core, ref, ttlMs));
}

async function removeQuietly(core: Core, ref: ClaimRef, ttlMs: number): Promise<void> {
  const { clock, commands, store } = core;
  const givenUpAt = clock.monotonicMs() + Math.max(ttlMs, DEFAULTS.placeMs);
  for (let attempt = 0; clock.monotonicMs() < givenUpAt; attempt += 1) {
    try {
      await commands.run((signal) => store.release(ref, signal), DEFAULTS.commandMs);
      return;
    } catch (error) {
      if (!isStoreError(error)) return;
      await pause(clock, backoff(clock, attempt, RETRY));
    }
  }
}
