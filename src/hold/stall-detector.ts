import type { Timer } from '../clock.ts';
import type { Core } from '../core.ts';
import type { HeldClaim } from './held-claim.ts';

/** The time between two beats: this share of the shortest TTL, within these bounds. */
const BEAT_SHARE = 1 / 12;
const BEAT_MIN_MS = 50;
const BEAT_MAX_MS = 1_000;
const CLOCK_JUMP_MS = 100;
/** A blocked event loop is reported from this share of a TTL on. */
const STALL_SHARE = 1 / 3;

/**
 * While a hold is to be renewed, a repeating timer notices that the host was suspended or that the
 * event loop was blocked. Without such a hold there is no timer: a test with fake timers that runs
 * all of them would never end.
 */
export class StallDetector {
  readonly #core: Core;
  readonly #onClockJump: () => void;
  readonly #onBeat: (() => void) | undefined;
  #timer: Timer | null = null;
  #beatAtMs = 0;
  #nextBeatMs = 0;
  #clockGapMs = 0;

  /** `onClockJump`: the host was suspended, or the wall clock was set forward. */
  constructor(core: Core, onClockJump: () => void, onBeat?: () => void) {
    this.#core = core;
    this.#onClockJump = onClockJump;
    this.#onBeat = onBeat;
  }

  /** Beats until there is nothing to renew any more. */
  start(): void {
    if (this.#timer !== null) return;
    const { clock } = this.#core;
    this.#clockGapMs = clock.wallMs() - clock.monotonicMs();
    this.#beatAtMs = clock.monotonicMs();
    const everyMs = this.#everyMs();
    this.#nextBeatMs = this.#beatAtMs + everyMs;
    this.#timer = clock.startTimer(everyMs, () => this.#beat());
  }

  stop(): void {
    this.#timer?.cancel();
    // Without a timer no beat is late.
    this.#timer = null;
  }

  /** Reports a blocked event loop if the time is long for this hold. Returns that time; else 0. */
  report(held: HeldClaim, remainingMs: number): number {
    const blockedMs = this.#blockedMs(held);
    if (blockedMs > 0) this.#core.emit('stalled', held.ref, { blockedMs, remainingMs });
    return blockedMs;
  }

  #blockedMs({ renew, ttlMs, heldForMs }: HeldClaim): number {
    // A hold that is not renewed ends at its time, blocked or not.
    if (!renew || this.#timer === null) return 0;
    const nowMs = this.#core.clock.monotonicMs();
    // The beat may have been set for longer TTLs. Of the time before it was due, no more counts as
    // blocked than the interval of this hold.
    const lateMs = nowMs - this.#nextBeatMs + ttlMs * BEAT_SHARE;
    // A hold that is acquired and released after the block, before the late beat, was not affected.
    const blockedMs = Math.min(nowMs - this.#beatAtMs, lateMs, heldForMs);
    return blockedMs > ttlMs * STALL_SHARE ? blockedMs : 0;
  }

  #beat(): void {
    const { clock } = this.#core;
    this.#onBeat?.();
    // Before the next beat is set, so that a hold lost by the stall reports the stall.
    for (const held of this.#core.renewals.holds)
      if (this.#blockedMs(held) > 0 && held.checkDeadline()) this.report(held, held.remainingMs);
    this.#timer = null;
    if (!this.#core.renewals.holds.some(({ renew }) => renew)) return;
    // A gap between the two clocks shows that the host was suspended: timers do not run meanwhile.
    const jumpMs = clock.wallMs() - clock.monotonicMs() - this.#clockGapMs;
    if (jumpMs > CLOCK_JUMP_MS) this.#onClockJump();
    this.start();
  }

  #everyMs(): number {
    let everyMs = BEAT_MAX_MS;
    for (const { ttlMs } of this.#core.renewals.holds) everyMs = Math.min(everyMs, ttlMs * BEAT_SHARE);
    return Math.max(everyMs, BEAT_MIN_MS);
  }
}
