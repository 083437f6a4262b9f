import type { Clock } from '../../clock.ts';
import { elapsedMs, type Instant, trustedMs } from '../../hold/validity.ts';
import type { ClaimOutcome, ClaimRequest } from '../../store/store.ts';

interface Told {
  readonly fence: bigint;
  readonly endsAtServerMs: number;
}

/** No older than what the server takes for fresh (`FRESH_MS` of `scripts/line.lua`), and a little for the way. */
const SAMPLE_MS = 1_500;
/** Less than this share of the time asked for is not worth taking unasked: asking gives all of it. */
const SHARE_MIN = 0.5;

/**
 * Grants that came as a message, so that a hand-over costs no second round trip. A message may have lain in a buffer for any time while this process was stopped, so
 * what is left of the grant is counted by the server's clock: from what that clock said in answer to a recent question, and the time that has passed here since that
 * question was *sent*. That can only be too little, unless the server's clock was set forward meanwhile, and then every lease of it ends early.
 */
export class ToldGrants {
  readonly #clock: Clock;
  readonly #told = new Map<string, Told>();
  #serverMs = 0;
  #sentAt: Instant | null = null;
  #forgotAtMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  setServerTime(serverMs: number, sentAt: Instant): void {
    // An answer that was on its way all the time: the clock of a server that may not be ours any more.
    if (sentAt.monotonicMs < this.#forgotAtMs) return;
    this.#serverMs = serverMs;
    this.#sentAt = sentAt;
  }

  add(id: string, told: Told): void {
    this.#told.set(id, told);
  }

  drop(id: string): void {
    if (this.#told.size > 0) this.#told.delete(id);
  }

  /** The next message may come from another server, with a clock of its own. */
  forget(): void {
    this.#told.clear();
    this.#sentAt = null;
    this.#forgotAtMs = this.#clock.monotonicMs();
  }

  /** The grant that this claim was told of, once; `null` when there is none, or when it is better to ask. */
  take({ id, ttlMs }: ClaimRequest): ClaimOutcome | null {
    if (this.#told.size === 0) return null;
    const told = this.#told.get(id);
    if (told === undefined) return null;
    this.#told.delete(id);
    if (this.#sentAt === null) return null;
    const sinceMs = elapsedMs(this.#clock, this.#sentAt);
    if (sinceMs > SAMPLE_MS) return null;
    // The two clocks may run apart by a little in that time.
    const apartMs = sinceMs - trustedMs(sinceMs);
    const leftMs = Math.min(told.endsAtServerMs - this.#serverMs - sinceMs - apartMs, ttlMs);
    return leftMs < ttlMs * SHARE_MIN ? null : { granted: true, fence: told.fence, validForMs: leftMs };
  }
}
