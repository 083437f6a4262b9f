import { Cron } from 'croner';
import { checkType, wrong } from '../checks.ts';
import { InvalidArgumentError } from '../errors.ts';

/**
 * When a schedule runs. Must give the same answers in every process: otherwise each process has
 * slots of its own.
 */
export interface SlotSource {
  /** The first slot after that instant; `null` when there is none. */
  next(after: Date): Date | null;
}

/** The most calls of `next` in one search for the latest slot. */
const STEPS_MAX = 10_000;
/** After this many slots forward, the search goes backward from now instead. */
const FOLLOWED_MAX = 1_000;

/** The slots of one schedule, in milliseconds since 1970. */
export class Slots {
  readonly #source: SlotSource;

  /** Throws `InvalidArgumentError`. */
  constructor(when: string | SlotSource, timeZone: string | undefined) {
    if (typeof when === 'string') this.#source = cronSource(when, timeZone);
    else {
      if (typeof when?.next !== 'function') throw wrong('when', 'a cron expression or { next(after) }', when);
      if (timeZone !== undefined)
        throw new InvalidArgumentError('timeZone', 'needs a cron expression; { next(after) } names instants');
      this.#source = when;
    }
  }

  /** The first slot after that instant; `null` when there is none. */
  next(afterMs: number): number | null {
    const next = this.#source.next(new Date(afterMs));
    if (next === null) return null;
    const ms = next instanceof Date ? next.getTime() : Number.NaN;
    if (!(ms > afterMs)) throw wrong('when', 'one whose next(after) gives a later Date, or null', next);
    return ms;
  }

  /**
   * The latest slot after one instant and not after the other; `null` when there is none, or when
   * it was not found in 10,000 steps.
   */
  latest(afterMs: number, nowMs: number): number | null {
    const followed = this.#follow(afterMs, nowMs, FOLLOWED_MAX);
    if (followed.isLatest) return followed.slotMs;
    // Many slots were missed.
    return this.latestUntil(nowMs, afterMs, STEPS_MAX - FOLLOWED_MAX);
  }

  /** The same, searched backwards from `nowMs`: doubles the time span until it contains a slot. */
  latestUntil(nowMs: number, afterMs: number, stepsMax = STEPS_MAX): number | null {
    let steps = 0;
    for (let backMs = 1; ; backMs *= 2) {
      const fromMs = Math.max(nowMs - backMs, afterMs);
      const first = this.next(fromMs);
      steps += 1;
      if (first !== null && first <= nowMs) {
        const { slotMs, isLatest } = this.#follow(fromMs, nowMs, stepsMax - steps);
        return isLatest ? slotMs : null;
      }
      if (fromMs === afterMs) return null;
    }
  }

  #follow(afterMs: number, nowMs: number, stepsMax: number): { slotMs: number | null; isLatest: boolean } {
    let slotMs: number | null = null;
    for (let steps = 0; steps < stepsMax; steps += 1) {
      const next = this.next(slotMs ?? afterMs);
      if (next === null || next > nowMs) return { slotMs, isLatest: true };
      slotMs = next;
    }
    return { slotMs, isLatest: false };
  }
}

function cronSource(expression: string, timeZone: string | undefined): SlotSource {
  // The parser also takes nicknames, dates and years, which the contract does not include.
  const fields = expression.trim().split(/\s+/).length;
  if (fields !== 5 && fields !== 6) throw wrong('when', 'a cron expression of 5 or 6 fields', expression);
  checkTimeZone(timeZone);
  try {
    const cron = new Cron(expression, {
      mode: '5-or-6-parts',
      ...(timeZone === undefined ? {} : { timezone: timeZone }),
    });
    return { next: (after) => cron.nextRun(after) };
  } catch (error) {
    throw new InvalidArgumentError('when', `is not a cron expression: ${(error as Error).message}`);
  }
}

function checkTimeZone(timeZone: string | undefined): void {
  if (timeZone === undefined) return;
  try {
    new Intl.DateTimeFormat('en', { timeZone: checkType('timeZone', timeZone, 'string') });
  } catch {
    throw wrong('timeZone', 'an IANA time zone such as Europe/Berlin', timeZone);
  }
}
