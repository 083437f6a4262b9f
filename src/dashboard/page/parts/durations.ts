/** Durations and counts as people read them. Figures of one column have the same unit width. */

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const two = (value: number): string => `${value}`.padStart(2, '0');

/** `7 s`, `3 m 07 s`, `2 h 05 m`, `4 d 03 h`: whole seconds, since it is shown while it ticks. */
export function showDuration(ms: number): string {
  const left = Math.max(0, ms);
  if (left < MINUTE_MS) return `${Math.floor(left / SECOND_MS)} s`;
  if (left < HOUR_MS)
    return `${Math.floor(left / MINUTE_MS)} m ${two(Math.floor((left % MINUTE_MS) / SECOND_MS))} s`;
  if (left < DAY_MS)
    return `${Math.floor(left / HOUR_MS)} h ${two(Math.floor((left % HOUR_MS) / MINUTE_MS))} m`;
  return `${Math.floor(left / DAY_MS)} d ${two(Math.floor((left % DAY_MS) / HOUR_MS))} h`;
}

/** A measured duration that does not tick: `< 0.1 ms`, `0.4 ms`, `12 ms`, `1.4 s`, `3 m 07 s`. */
export function showMeasured(ms: number): string {
  if (ms < 0.05) return '< 0.1 ms';
  if (ms < 0.95) return `${ms.toFixed(1)} ms`;
  if (ms < SECOND_MS) return `${Math.round(ms)} ms`;
  if (ms < MINUTE_MS) return `${Math.round(ms / 100) / 10} s`;
  return showDuration(ms);
}

const counts = new Intl.NumberFormat('en');

export function showCount(count: number): string {
  return counts.format(count);
}

/** `1 waiter`, `2 waiters`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${showCount(count)} ${count === 1 ? one : many}`;
}

const times = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium', hourCycle: 'h23' });
const dates = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });

/** The local time; with the date unless it is today's. */
export function showTime(atMs: number): string {
  const at = new Date(atMs);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? times.format(at) : `${dates.format(at)}, ${times.format(at)}`;
}
