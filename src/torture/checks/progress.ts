import type { HoldSpan, QuietPeriod, Spans, WaitSpan } from './spans.ts';
import { atSecond, inMs, unseen, type Verdict, verdict } from './verdict.ts';

const MS = 1e6;
/** The TTL that is assumed when a history does not name one. */
const TTL_MS = 10_000;
/** A quiet period in which timers fired later than this is not judged: the machine was too busy. */
const LAG_MAX_MS = 250;
/** How much longer than its TTL a dead holder may block the lock. */
const DEAD_SLACK_MS = 3_000;
/** A dead waiter may delay the waiters behind it until its claim has run out. */
const DEAD_WAITER_MS = 5_000;
/** After that time, a lock that is free and waited for must be acquired. */
const STALL_SLACK_MS = 1_500;
const HANDOFFS_MIN = 5;
const PAIRS_MIN = 10;
/**
 * Calls that begin closer together than this, and than timers were late, may arrive in another
 * order.
 */
const ORDER_MARGIN_MS = 20;
const OVERTAKES_MAX = 1 / 3;
/**
 * This share of the handoffs may take longer than half a TTL: a dead waiter may have been ahead.
 */
const SLOW_MAX = 1 / 4;

/** How long a quiet period has to be, so that a lock that makes no progress is found. */
export function quietMsFor(ttlMs: number): number {
  return Math.max(ttlMs, DEAD_WAITER_MS) + STALL_SLACK_MS + 1_000;
}

/**
 * Locks make progress while nothing fails: handoffs, dead holders, lost wake-ups, first come, first
 * served.
 */
export function checkProgress(spans: Spans): Verdict[] {
  const all = spans.quietPeriods();
  const periods = all.filter(({ lagMs }) => lagMs <= LAG_MAX_MS);
  if (periods.length === 0)
    return ['handoff time', 'dead holders', 'lost wake-ups', 'first come, first served'].map((property) =>
      unseen(property, all.length === 0 ? 'there was no time without faults' : 'the machine was too busy'),
    );
  const ttl = (spans.run?.ttlMs ?? TTL_MS) * MS;
  return [
    handoffTime(spans, periods, ttl),
    deadHolders(spans, periods, ttl),
    lostWakeups(spans, periods, ttl),
    order(spans, periods),
  ];
}

const isIn = (period: QuietPeriod, at: number): boolean => at >= period.from && at < period.to;
const isPending = ({ from, to }: WaitSpan, at: number): boolean => from < at && to > at;

/**
 * From a release to the next hold, while another process waited: most take less than half a TTL.
 */
function handoffTime(spans: Spans, periods: readonly QuietPeriod[], ttl: number): Verdict {
  const times: number[] = [];
  for (const lock of spans.locks) {
    const holds = spans.holdsOf(lock);
    const waits = spans.waits.filter((wait) => wait.lock === lock);
    for (const [n, { to, releasedAt, end, weight }] of holds.entries()) {
      const period = periods.find((each) => isIn(each, to));
      if (period === undefined || end !== 'release' || releasedAt === null || weight !== null) continue;
      if (!waits.some((wait) => isPending(wait, to) && wait.to > releasedAt)) continue;
      const next = holds[n + 1]?.from ?? Number.POSITIVE_INFINITY;
      if (next <= period.to) times.push(Math.max(0, next - releasedAt));
      else if (period.to - releasedAt > ttl) times.push(period.to - releasedAt);
    }
  }
  times.sort((a, b) => a - b);
  const p99 = times[Math.floor(times.length * 0.99)] ?? 0;
  const median = times[Math.floor(times.length / 2)] ?? 0;
  const text = `handoffs, median ${inMs(median)}, 99 % within ${inMs(p99)}`;
  const slow = times.filter((time) => time > ttl / 2).length;
  const isSlow = times.length >= HANDOFFS_MIN && slow > times.length * SLOW_MAX;
  const findings = isSlow ? [`${times.length} ${text}; ${slow} took longer than half the TTL`] : [];
  return verdict('handoff time', findings, { count: times.length, wanted: HANDOFFS_MIN, what: text });
}

/**
 * After the death of a holder in a quiet period, the lock is held again within its TTL and three
 * seconds.
 */
function deadHolders(spans: Spans, periods: readonly QuietPeriod[], ttl: number): Verdict {
  const limit = ttl + DEAD_SLACK_MS * MS;
  const findings: string[] = [];
  let longest = 0;
  let count = 0;
  for (const { at, note } of spans.notes) {
    const period = periods.find((each) => isIn({ ...each, from: each.from - MS * 500 }, at));
    if (note.kind !== 'exit' || period === undefined) continue;
    for (const hold of spans.holds.filter(
      ({ process, end }) => end === 'lost' && note.processes.includes(process),
    )) {
      if (Math.abs(hold.to - at) > ttl || hold.weight !== null || hasDeadWaiter(spans, hold, at)) continue;
      const next = spans
        .holdsOf(hold.lock)
        .find(({ from, process }) => from > hold.to && process !== hold.process);
      const isWaitedFor = spans.waits.some(
        (wait) => wait.lock === hold.lock && wait.process !== hold.process && isPending(wait, at),
      );
      if (!isWaitedFor || (period.to < at + limit && next === undefined)) continue;
      const took = (next?.from ?? period.to) - at;
      count += 1;
      longest = Math.max(longest, took);
      if (took > limit)
        findings.push(`${hold.lock}: held again ${inMs(took)} after its holder died ${atSecond(at)}`);
    }
  }
  const what = `dead holders, the lock held again after ${inMs(longest)} at most`;
  return verdict('dead holders', findings, { count, wanted: 1, what });
}

/** Whether a process that waited for the same lock has died shortly before. */
function hasDeadWaiter(spans: Spans, { lock, process }: HoldSpan, at: number): boolean {
  return spans.waits.some(
    (wait) =>
      wait.lock === lock &&
      wait.process !== process &&
      wait.result === 'open' &&
      wait.to < spans.endAt &&
      wait.to > at - (DEAD_WAITER_MS + 1_000) * MS &&
      wait.to <= at,
  );
}

/** A lock that is free and always waited for is acquired within the limit. */
function lostWakeups(spans: Spans, periods: readonly QuietPeriod[], ttl: number): Verdict {
  const limit = Math.max(ttl, DEAD_WAITER_MS * MS) + STALL_SLACK_MS * MS;
  const findings: string[] = [];
  let count = 0;
  const locks = new Set(spans.waits.map(({ lock }) => lock));
  for (const period of periods)
    for (const lock of locks) {
      const waits = spans.waits.filter(
        (wait) => wait.lock === lock && wait.to > period.from && wait.from < period.to,
      );
      const holds = spans.holdsOf(lock).filter(({ from, to }) => to > period.from && from < period.to);
      if (waits.length > 0 && period.to - period.from > limit) count += 1;
      for (const [from, to] of gaps(period, holds)) {
        if (to - from <= limit || covered(from, to, waits) < (to - from) * 0.8) continue;
        findings.push(
          `${lock}: nobody held it for ${inMs(to - from)} from ${atSecond(from)} on, and it was waited for`,
        );
      }
    }
  return verdict('lost wake-ups', findings, {
    count,
    wanted: 1,
    what: 'times that a lock was waited for in a quiet period',
  });
}

/** The parts of a quiet period in which the lock was not held. */
function gaps(period: QuietPeriod, holds: readonly HoldSpan[]): [number, number][] {
  const found: [number, number][] = [];
  let at = period.from;
  for (const { from, to } of holds) {
    if (from > at) found.push([at, from]);
    at = Math.max(at, to);
  }
  if (at < period.to) found.push([at, period.to]);
  return found;
}

/** How much of the time at least one call was pending. */
function covered(from: number, to: number, waits: readonly WaitSpan[]): number {
  let sum = 0;
  let at = from;
  for (const wait of [...waits].sort((a, b) => a.from - b.from)) {
    const [begin, end] = [Math.max(at, wait.from), Math.min(to, wait.to)];
    if (end <= begin) continue;
    sum += end - begin;
    at = end;
  }
  return sum;
}

const isBetween = (at: number, period: QuietPeriod, { invokedAt }: HoldSpan): boolean =>
  at >= period.from && at < invokedAt;

/** Only for libraries that promise it: the first caller is served first. */
function order(spans: Spans, periods: readonly QuietPeriod[]): Verdict {
  const property = 'first come, first served';
  const isFair = spans.notes.some(({ note }) => note.kind === 'adapter' && note.isFair);
  if (!isFair) return unseen(property, 'the adapter does not claim it');
  let pairs = 0;
  let overtakes = 0;
  for (const period of periods)
    for (const lock of spans.locks) {
      const holds = spans
        .holdsOf(lock)
        .filter(
          ({ invokedAt, from, weight }) => weight === null && invokedAt >= period.from && from < period.to,
        )
        .sort((a, b) => a.invokedAt - b.invokedAt);
      for (const [n, first] of holds.entries()) {
        // A process that has held nothing since the burst of faults may not have a connection yet.
        if (
          !spans.holds.some(
            ({ process, from }) => process === first.process && isBetween(from, period, first),
          )
        )
          continue;
        for (const later of holds.slice(n + 1)) {
          if (later.invokedAt > first.from) break;
          if (later.invokedAt - first.invokedAt < (ORDER_MARGIN_MS + 2 * period.lagMs) * MS) continue;
          pairs += 1;
          if (later.from < first.from) overtakes += 1;
        }
      }
    }
  const isBroken = pairs >= PAIRS_MIN && overtakes / pairs > OVERTAKES_MAX;
  const findings = isBroken ? [`${overtakes} of ${pairs} later callers were served first`] : [];
  const what = `pairs of callers, ${overtakes} served in another order`;
  return verdict(property, findings, { count: pairs, wanted: PAIRS_MIN, what });
}
