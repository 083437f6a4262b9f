import type { Clock } from '../../clock.ts';

export interface Range {
  readonly min: number;
  readonly max: number;
}

/**
 * When waiters ask again without a wake-up. Times are ranges, so that not all waiters ask at once.
 */
export interface RetryPolicy {
  /** To keep a queue position: well before it expires. */
  readonly keepPositionMs: Range;
  /** After the hold ahead should have expired. */
  readonly afterEndMs: Range;
  /**
   * Once after the claim has entered the queue. By then, a grant that was pushed to a stopped
   * waiter ahead has ended unconfirmed. Default: not at all.
   */
  readonly firstLookMs?: Range;
  /** While the store is not subscribed. */
  readonly unsubscribedMs: Range;
  /** The same for all but the first waiter of a process. Default `unsubscribedMs`. */
  readonly keepUnsubscribedMs?: Range;
  /**
   * Another program's release sends no wake-up. `foreignHeadMs`: for the first waiter in the queue.
   * `foreignMs`: for the first waiter of every other process. Default `foreignHeadMs`.
   */
  readonly foreignHeadMs: Range;
  readonly foreignMs?: Range;
  /**
   * For the first waiter of a process, at a server that cannot push grants. A waiter that becomes the
   * first because another has left also asks after this time, or after `firstLookMs` where this is
   * not set: a stopped waiter ahead of it must be noticed within six seconds.
   */
  readonly firstMs?: Range;
}

/** Of leases in SQL tables, where a waiter lives for a minute or more. */
export const TABLE_RETRY: RetryPolicy = {
  keepPositionMs: { min: 25_000, max: 35_000 },
  keepUnsubscribedMs: { min: 12_000, max: 18_000 },
  afterEndMs: { min: 2, max: 25 },
  unsubscribedMs: { min: 250, max: 500 },
  foreignHeadMs: { min: 500, max: 1_000 },
};

/** What a store knows when it refuses a claim. */
export interface Refusal {
  /** When the hold ahead expires unless it is renewed; `null`: unknown. */
  readonly endsInMs: number | null;
  /** Only the holder is ahead of the claim. */
  readonly isHead?: boolean;
  /** The holder is another program, whose release wakes no waiter. */
  readonly isForeign?: boolean;
  /** How long ago the claim entered the queue; `null`: it does not wait. */
  readonly enteredAgoMs?: number | null;
}

/**
 * `lookMs`: after which time the first waiter of this process asks again; `keepMs`: after which
 * time any waiter asks again to keep its queue position.
 */
export function retryAfterMs(
  policy: RetryPolicy,
  clock: Clock,
  refusal: Refusal,
  isListening: boolean,
): { lookMs: number; keepMs: number } {
  const { endsInMs, isHead = false, isForeign = false, enteredAgoMs = null } = refusal;
  let lookMs = endsInMs === null ? Number.POSITIVE_INFINITY : endsInMs + between(clock, policy.afterEndMs);
  // Also for a claim that asks again before that time, as when the subscription becomes active.
  if (policy.firstLookMs !== undefined && enteredAgoMs !== null && enteredAgoMs < policy.firstLookMs.min)
    lookMs = Math.min(lookMs, between(clock, policy.firstLookMs) - enteredAgoMs);
  const foreignMs = isHead ? policy.foreignHeadMs : (policy.foreignMs ?? policy.foreignHeadMs);
  if (isForeign) lookMs = Math.min(lookMs, between(clock, foreignMs));
  if (policy.firstMs !== undefined) lookMs = Math.min(lookMs, between(clock, policy.firstMs));
  if (!isListening) lookMs = Math.min(lookMs, between(clock, policy.unsubscribedMs));
  return {
    lookMs,
    keepMs: between(
      clock,
      isListening ? policy.keepPositionMs : (policy.keepUnsubscribedMs ?? policy.unsubscribedMs),
    ),
  };
}

export function between(clock: Clock, { min, max }: Range): number {
  return min + clock.random() * (max - min);
}
