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
   * it was not found in 10,000 steps. Looks back from `nowMs`, twice as far each time, because many
   * slots may have been missed.
   */
  latest(afterMs: number, nowMs: number): number | null {
    let slotMs: number | null = null;
    let backMs = 1;
    for (let steps = 0; steps < STEPS_MAX; steps += 1) {
      const fromMs = slotMs ?? Math.max(nowMs - backMs, afterMs);
      const next = this.next(fromMs);
      if (next !== null && next <= nowMs) slotMs = next;
      else if (slotMs !== null || fromMs <= afterMs) return slotMs;
      else backMs *= 2;
    }
    return null;
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
