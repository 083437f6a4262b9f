import type { Clock, Timer } from '../clock.ts';

/** Something that is due after a lane's delay. */
export interface LaneEntry {
  lane: { leave(entry: LaneEntry): void } | null;
  dueAtMs: number;
}

/**
 * Many equal delays behind one timer: whoever joins later is due later, so a set, which keeps the order of joining, is in order of time. What is due
 * within `slackMs` fires together, so that work which can travel together does.
 */
export class Lane<E extends LaneEntry> {
  readonly #clock: Clock;
  readonly #delayMs: number;
  readonly #slackMs: number;
  readonly #fire: (due: E[]) => void;
  readonly #entries = new Set<LaneEntry>();
  #timer: Timer | null = null;

  constructor(clock: Clock, delayMs: number, slackMs: number, fire: (due: E[]) => void) {
    this.#clock = clock;
    this.#delayMs = delayMs;
    this.#slackMs = slackMs;
    this.#fire = fire;
  }

  join(entry: E, nowMs: number): void {
    entry.lane = this;
    entry.dueAtMs = nowMs + this.#delayMs;
    this.#entries.add(entry);
    // A timer left over from an entry that has gone since is early for this one at worst, and then set again.
    this.#timer ??= this.#clock.startTimer(this.#delayMs, this.#onTimer);
  }

  leave(entry: LaneEntry): void {
    entry.lane = null;
    this.#entries.delete(entry);
  }

  /** Stops the timer of a lane that nobody is in. */
  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  readonly #onTimer = (): void => {
    this.#timer = null;
    const now = this.#clock.monotonicMs();
    const due: LaneEntry[] = [];
    for (const entry of this.#entries) {
      const waitMs = entry.dueAtMs - now;
      if (waitMs > (due.length > 0 ? this.#slackMs : 0)) {
        this.#timer = this.#clock.startTimer(Math.max(waitMs, 1), this.#onTimer);
        break;
      }
      this.leave(entry);
      due.push(entry);
    }
    this.#fire(due as E[]);
  };
}
