import type { Clock } from '../../clock.ts';
import { elapsedMs, type Instant, trustedMs } from '../../store/validity.ts';

/**
 * How old a reading of the server's clock may be: `FRESH_MS` of the Redis scripts, and some time
 * for the transfer.
 */
const SAMPLE_MS = 1_500;

/**
 * Tells how much of a pushed grant is left, although its message may have waited in a buffer while
 * this process was stopped. The rest is counted by the server's clock, whose present time is at
 * most the time in a recent answer, plus the local time since the question was *sent*, unless the
 * server's clock was set forward meanwhile. In that case all leases of the server end early too.
 */
export class PushedGrantAge {
  readonly #clock: Clock;
  #serverMs = 0;
  #sentAt: Instant | null = null;
  #forgotAtMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  set(serverMs: number, sentAt: Instant): void {
    // The question was sent before `forget`, so the answer may come from the clock of another
    // server.
    if (sentAt.monotonicMs < this.#forgotAtMs) return;
    this.#serverMs = serverMs;
    this.#sentAt = sentAt;
  }

  /** The next message may come from another server, whose clock differs. */
  forget(): void {
    this.#sentAt = null;
    this.#forgotAtMs = this.#clock.monotonicMs();
  }

  /** Milliseconds until the server's clock reaches this time; `null` when that is unknown. */
  untilMs(serverMs: number): number | null {
    if (this.#sentAt === null) return null;
    const sinceMs = elapsedMs(this.#clock, this.#sentAt);
    if (sinceMs > SAMPLE_MS) return null;
    // The two clocks may drift apart in that time.
    const apartMs = sinceMs - trustedMs(sinceMs);
    return serverMs - this.#serverMs - sinceMs - apartMs;
  }
}
