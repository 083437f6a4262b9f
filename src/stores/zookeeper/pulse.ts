import type { Clock, Timer } from '../../clock.ts';
import type { Liveness } from './liveness.ts';

/** How often it looks, as a share of the session's time-out. */
const BEAT_SHARE = 1 / 8;
const BEAT_MIN_MS = 250;
/** A link that has been silent for so long, though asked, is dead; the rest of the time is for another member. */
const SILENT_SHARE = 1 / 2;
/** Nor does a member that takes the connection and says nothing get more. */
const CONNECTING_SHARE = 1 / 4;
const CONNECTING_MIN_MS = 500;

/**
 * Keeps a session in sight: asks for a sign of life when nothing else did, and leaves a link that has fallen silent. The client's own pings cannot be used for either: it shows nobody their answers, and goes on for ever
 * without any.
 */
export class Pulse {
  readonly #clock: Clock;
  readonly #liveness: Liveness;
  readonly #beat: () => Promise<void>;
  readonly #dropLink: () => void;
  #timer: Timer | null = null;
  #isConnected = false;
  #isBeating = false;
  #sinceMs = 0;

  constructor(clock: Clock, liveness: Liveness, beat: () => Promise<void>, dropLink: () => void) {
    this.#clock = clock;
    this.#liveness = liveness;
    this.#beat = beat;
    this.#dropLink = dropLink;
  }

  start(timeoutMs: number, isConnected: boolean): void {
    this.stop();
    this.#isConnected = isConnected;
    this.#isBeating = false;
    this.#sinceMs = this.#clock.monotonicMs();
    if (isConnected) this.#ask();
    this.#wait(timeoutMs, this.#sinceMs);
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  #wait(timeoutMs: number, beforeMs: number): void {
    const everyMs = Math.max(timeoutMs * BEAT_SHARE, BEAT_MIN_MS);
    this.#timer = this.#clock.startTimer(everyMs, () => {
      const nowMs = this.#clock.monotonicMs();
      // When this process was paused, answers may be there that it has not read yet.
      if (nowMs - beforeMs < everyMs * 2) this.#look(nowMs, timeoutMs);
      this.#wait(timeoutMs, nowMs);
    });
  }

  #look(nowMs: number, timeoutMs: number): void {
    if (!this.#isConnected) {
      if (nowMs - this.#sinceMs < Math.max(timeoutMs * CONNECTING_SHARE, CONNECTING_MIN_MS)) return;
      this.#sinceMs = nowMs;
      this.#dropLink();
      return;
    }
    const lastMs = Math.max(this.#liveness.lastSentMs, this.#sinceMs);
    if (nowMs - lastMs > timeoutMs * SILENT_SHARE) this.#dropLink();
    else this.#ask();
  }

  /** One question at a time. */
  #ask(): void {
    if (this.#isBeating) return;
    this.#isBeating = true;
    const over = (): void => {
      this.#isBeating = false;
    };
    this.#beat().then(over, over);
  }
}
