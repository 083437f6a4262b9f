import type { Clock, Timer } from '../clock.ts';

/** Something that is due after a lane's delay. Linked by the lane itself, so that joining and leaving allocate nothing. */
export interface LaneEntry {
  lane: Lane<LaneEntry> | null;
  ahead: LaneEntry | null;
  behind: LaneEntry | null;
  dueAtMs: number;
}

/**
 * Many equal delays behind one timer: whoever joins later is due later, so a list in order of joining is in order of time. What is due
 * within `slackMs` fires together, so that work which can travel together does.
 */
export class Lane<E extends LaneEntry> {
  readonly #clock: Clock;
  readonly #delayMs: number;
  readonly #slackMs: number;
  readonly #fire: (due: E[]) => void;
  #first: LaneEntry | null = null;
  #last: LaneEntry | null = null;
  #timer: Timer | null = null;

  constructor(clock: Clock, delayMs: number, slackMs: number, fire: (due: E[]) => void) {
    this.#clock = clock;
    this.#delayMs = delayMs;
    this.#slackMs = slackMs;
    this.#fire = fire;
  }

  join(entry: E, nowMs: number): void {
    entry.lane = this as unknown as Lane<LaneEntry>;
    entry.dueAtMs = nowMs + this.#delayMs;
    entry.ahead = this.#last;
    entry.behind = null;
    if (this.#last === null) this.#first = entry;
    else this.#last.behind = entry;
    this.#last = entry;
    // A timer left over from an entry that has gone since is early for this one at worst, and then set again.
    this.#timer ??= this.#clock.startTimer(this.#delayMs, this.#onTimer);
  }

  leave(entry: E): void {
    if (entry.lane !== (this as unknown as Lane<LaneEntry>)) return;
    if (entry.ahead === null) this.#first = entry.behind;
    else entry.ahead.behind = entry.behind;
    if (entry.behind === null) this.#last = entry.ahead;
    else entry.behind.ahead = entry.ahead;
    entry.lane = null;
    entry.ahead = null;
    entry.behind = null;
  }

  /** Stops the timer of a lane that nobody is in. */
  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  readonly #onTimer = (): void => {
    this.#timer = null;
    const now = this.#clock.monotonicMs();
    const due: E[] = [];
    if (this.#first !== null && this.#first.dueAtMs <= now) {
      for (
        let entry = this.#first;
        entry !== null && entry.dueAtMs <= now + this.#slackMs;
        entry = this.#first
      ) {
        this.leave(entry as E);
        due.push(entry as E);
      }
    }
    if (this.#first !== null) {
      this.#timer = this.#clock.startTimer(Math.max(this.#first.dueAtMs - now, 1), this.#onTimer);
    }
    if (due.length > 0) this.#fire(due);
  };
}
