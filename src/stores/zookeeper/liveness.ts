import type { Clock } from '../../clock.ts';
import type { Instant } from '../../hold/validity.ts';

/** How long a member may take to tell the leader that it has heard of a session. Members do so every half tick, and a session lasts two ticks at least. */
const LAG_SHARE = 1 / 3;
/** Sightings closer together than this are one. */
const GRAIN_SHARE = 1 / 32;
/** More than there can be within one time-out. */
const SIGHTINGS_MAX = 40;

interface Sighting {
  readonly sent: Instant;
  readonly answeredMs: number;
}

/**
 * Until when the session can be trusted. The leader alone ends sessions, and hears of them with a delay, through members that may be cut off from it: a member in that state goes on answering
 * reads and pings though the leader has given the session up. So an answer counts only when a later request has been through the leader and a majority (`isWrite`), and so long after it that
 * the member must have passed it on before. (When the session has moved to another member meanwhile, the leader was told then.)
 */
export class Liveness {
  readonly #clock: Clock;
  readonly #sightings: Sighting[] = [];
  #confirmed: Instant | null = null;
  #reopened: { readonly after: Instant; readonly atMs: number } | null = null;
  /** What the server has agreed to. */
  timeoutMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The leader has known the session since then. */
  begin(since: Instant, timeoutMs: number): void {
    this.timeoutMs = timeoutMs;
    this.#confirmed = since;
  }

  /** The session was taken up again, some time after `after`. The leader was told of it then, before anything else that came over this connection. */
  reopen(after: Instant): void {
    this.#reopened = { after, atMs: this.#clock.monotonicMs() };
  }

  /** A request that was sent then has been answered. */
  heard(sent: Instant, isWrite: boolean): void {
    if (isWrite) this.#confirm(sent.monotonicMs - this.timeoutMs * LAG_SHARE);
    if (isWrite && this.#reopened !== null && sent.monotonicMs >= this.#reopened.atMs) {
      this.#trust(this.#reopened.after);
      this.#reopened = null;
    }
    const last = this.#sightings.at(-1);
    if (last !== undefined && sent.monotonicMs - last.sent.monotonicMs < this.timeoutMs * GRAIN_SHARE) return;
    this.#sightings.push({ sent, answeredMs: this.#clock.monotonicMs() });
    if (this.#sightings.length > SIGHTINGS_MAX) this.#sightings.shift();
  }

  /** When anything was last heard that keeps the session alive, by the time of asking. */
  get lastSentMs(): number {
    return this.#sightings.at(-1)?.sent.monotonicMs ?? Number.NEGATIVE_INFINITY;
  }

  /** How long from `from` on the session lives at least. Not positive: it cannot be trusted. */
  leftMs(from: Instant): number {
    const confirmed = this.#confirmed;
    if (confirmed === null) return 0;
    const spentMs = Math.max(from.monotonicMs - confirmed.monotonicMs, from.wallMs - confirmed.wallMs);
    // More than the time-out for what was sent before that: it has waited for its turn meanwhile.
    return this.timeoutMs - spentMs;
  }

  /** Everything that was answered by then has reached the leader. */
  #confirm(answeredByMs: number): void {
    let found: Sighting | null = null;
    for (let first = this.#sightings[0]; first !== undefined; first = this.#sightings[0]) {
      if (first.answeredMs > answeredByMs) break;
      found = first;
      this.#sightings.shift();
    }
    if (found !== null) this.#trust(found.sent);
  }

  #trust(known: Instant): void {
    if (this.#confirmed === null || known.monotonicMs > this.#confirmed.monotonicMs) this.#confirmed = known;
  }
}
