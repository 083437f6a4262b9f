import type { Clock, Timer } from '../../clock.ts';
import type { Instant } from '../../store/validity.ts';

/** The interval of the checks, as a share of the session time-out. */
const BEAT_SHARE = 1 / 8;
const BEAT_MIN_MS = 250;
/** A connection without a reply for this share is dropped. The rest is for another member. */
const SILENT_SHARE = 1 / 2;
/** The same while no session is open over the connection. */
const CONNECTING_SHARE = 1 / 4;
const CONNECTING_MIN_MS = 500;
/**
 * How long a member may take to report a session to the leader. Members report every half tick, and
 * a session time-out has at least two ticks.
 */
const LAG_SHARE = 1 / 3;
/** Replies within this share of each other are recorded as one. */
const GRAIN_SHARE = 1 / 32;
/** More than can be recorded within one session time-out. */
const REPLIES_MAX = 40;

interface Reply {
  readonly sent: Instant;
  readonly receivedMs: number;
}

export interface HeartbeatActions {
  /** Sends a cheap request, whose reply shows that the session is alive. */
  ask(): Promise<unknown>;
  dropConnection(): void;
}

/**
 * Keeps a session alive, and knows until when the session can be trusted.
 *
 * The client's own pings serve for neither: their replies are not visible, and the client never
 * gives up a silent connection. So the heartbeat sends a request whenever no other request did, and
 * drops a connection that has become silent.
 *
 * Only the leader ends sessions. Members report sessions to it with a delay, and a member that is
 * cut off from the leader goes on answering reads and pings although the leader has ended the
 * session. So a reply counts only once a later write has gone through the leader and a majority
 * (`isWrite`). That write must have been sent so long after the reply that the member has reported
 * the session in between. If the session has moved to another member meanwhile, the leader learned
 * of the session at that moment.
 */
export class Heartbeat {
  readonly #clock: Clock;
  readonly #actions: HeartbeatActions;
  readonly #replies: Reply[] = [];
  #confirmed: Instant | null = null;
  /** `null`: there is no connection, or a write over it was committed. */
  #openedAfter: Instant | null = null;
  #timer: Timer | null = null;
  #isConnected = false;
  #isAsking = false;
  #sinceMs = 0;
  /** The session time-out, as agreed with the server. */
  timeoutMs = 0;

  constructor(clock: Clock, actions: HeartbeatActions) {
    this.#clock = clock;
    this.#actions = actions;
  }

  /**
   * Checks the connection from now on. The session began with it, or moved to it, after `openedAfter`,
   * and the leader knows that before later requests. `null`: there is no connection, and from now on
   * the heartbeat checks that the next one comes in time.
   */
  start(timeoutMs: number, openedAfter: Instant | null): void {
    this.stop();
    this.timeoutMs = timeoutMs;
    this.#openedAfter = openedAfter;
    this.#isConnected = openedAfter !== null;
    this.#isAsking = false;
    this.#sinceMs = this.#clock.monotonicMs();
    if (this.#isConnected) this.#ask();
    this.#schedule(this.#sinceMs);
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  /** A reply has come to a request that was sent at `sent`. */
  onReply(sent: Instant, isWrite: boolean): void {
    if (isWrite) this.#confirm(sent.monotonicMs - this.timeoutMs * LAG_SHARE);
    if (isWrite && this.#openedAfter !== null && sent.monotonicMs >= this.#sinceMs) {
      this.#trust(this.#openedAfter);
      this.#openedAfter = null;
    }
    const last = this.#replies.at(-1);
    if (last !== undefined && sent.monotonicMs - last.sent.monotonicMs < this.timeoutMs * GRAIN_SHARE) return;
    this.#replies.push({ sent, receivedMs: this.#clock.monotonicMs() });
    if (this.#replies.length > REPLIES_MAX) this.#replies.shift();
  }

  /** How long the session lives at least, counted from `from`. Not positive: it cannot be trusted. */
  leftMs(from: Instant): number {
    const confirmed = this.#confirmed;
    if (confirmed === null) return 0;
    const spentMs = Math.max(from.monotonicMs - confirmed.monotonicMs, from.wallMs - confirmed.wallMs);
    // A request that waited for its turn may have been sent before `confirmed`. Then the result is
    // more than the time-out.
    return this.timeoutMs - spentMs;
  }

  #schedule(beforeMs: number): void {
    const everyMs = Math.max(this.timeoutMs * BEAT_SHARE, BEAT_MIN_MS);
    this.#timer = this.#clock.startTimer(everyMs, () => {
      const nowMs = this.#clock.monotonicMs();
      // After a pause of this process, replies may have arrived that it has not read yet.
      if (nowMs - beforeMs < everyMs * 2) this.#check(nowMs);
      this.#schedule(nowMs);
    });
  }

  #check(nowMs: number): void {
    if (!this.#isConnected) {
      if (nowMs - this.#sinceMs < Math.max(this.timeoutMs * CONNECTING_SHARE, CONNECTING_MIN_MS)) return;
      this.#sinceMs = nowMs;
      this.#actions.dropConnection();
      return;
    }
    const lastMs = Math.max(this.#replies.at(-1)?.sent.monotonicMs ?? 0, this.#sinceMs);
    if (nowMs - lastMs > this.timeoutMs * SILENT_SHARE) this.#actions.dropConnection();
    else this.#ask();
  }

  #ask(): void {
    if (this.#isAsking) return;
    this.#isAsking = true;
    const over = (): void => {
      this.#isAsking = false;
    };
    this.#actions.ask().then(over, over);
  }

  /** The leader has learned of every reply received before that time. */
  #confirm(receivedByMs: number): void {
    const last = this.#replies.findLastIndex(({ receivedMs }) => receivedMs <= receivedByMs);
    const known = this.#replies.splice(0, last + 1).at(-1);
    if (known !== undefined) this.#trust(known.sent);
  }

  #trust(known: Instant): void {
    if (this.#confirmed === null || known.monotonicMs > this.#confirmed.monotonicMs) this.#confirmed = known;
  }
}
