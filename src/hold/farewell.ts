import type { Core } from '../core.ts';
import { DEFAULTS, type PollBounds } from '../options.ts';
import type { ClaimRef } from '../store/store.ts';
import { codeOf, isStoreError, isUnknown } from './command.ts';
import { backoff, pause } from './pause.ts';

/** The last command about a claim. Resolves to whether it found the claim. */
export type Farewell = (signal: AbortSignal) => Promise<boolean>;

/** How long it is tried, in all, before the caller is told that it failed, how long each try may take, and what lies between two. */
export const ANSWER_MS = 5_000;
export const TRY_MS = 1_500;
const AWAITED = { min: 200, max: 200 };

/** `unknown`: some try before the answer may have been carried out unheard. */
export interface Answer {
  readonly found: boolean;
  readonly unknown: boolean;
}

/**
 * Sends it again after a first failure until the store answers or the time is over, by default while the caller waits. Rejects with the last failure.
 */
export async function sendAgain(
  core: Core,
  send: Farewell,
  failure: unknown,
  endMs: number,
  delays: PollBounds = AWAITED,
): Promise<Answer> {
  const { commands, clock } = core;
  for (let error = failure, unknown = false, attempt = 0; ; attempt += 1) {
    unknown ||= isUnknown(error);
    const delayMs = backoff(clock, attempt, delays);
    // With its client closed there is nobody to say it to any more.
    const isOver = !isStoreError(error) || codeOf(error.cause) === 'CLOSED';
    if (isOver || clock.monotonicMs() + delayMs >= endMs) throw error;
    await pause(clock, delayMs, { keepAlive: delays === AWAITED });
    try {
      return { found: await commands.run(send, Math.min(TRY_MS, endMs - clock.monotonicMs())), unknown };
    } catch (again) {
      error = again;
    }
  }
}

/** Sends it in the background until the store answers, or until there can be nothing left to say it to. */
export function insist(core: Core, send: Farewell, forMs: number): void {
  const endMs = core.clock.monotonicMs() + forMs;
  const sent = core.commands.run(send, TRY_MS);
  core.background(sent.catch((error) => sendAgain(core, send, error, endMs, DEFAULTS.retryMs)));
}

/**
 * Removes a claim that nobody wants any more, in the background: after an aborted or timed-out wait, an unknown outcome, a late grant. Tried
 * until the store answers or the claim must have run out by itself.
 */
export function cleanUp(core: Core, ref: ClaimRef, ttlMs: number): void {
  insist(core, (signal) => core.store.release(ref, signal), Math.max(ttlMs, DEFAULTS.placeMs));
}
