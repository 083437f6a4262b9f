import type { HoldSpan, Spans } from './spans.ts';
import { atSecond, inMs, unseen, type Verdict, verdict } from './verdict.ts';

/** Fewer holds show nothing, in any history. */
const HOLDS_MIN = 10;
const HOLDS_PER_SECOND = 1;

interface Overlaps {
  readonly exclusive: string[];
  readonly mixed: string[];
  readonly permits: string[];
}

/** Exclusion, readers and writers, and permits, among processes that trust their holds. */
export function checkExclusion(spans: Spans): Verdict[] {
  const found: Overlaps = { exclusive: [], mixed: [], permits: [] };
  for (const lock of spans.locks) sweep(spans.holdsOf(lock), capacityOf(spans, lock), found);
  const wanted = Math.max(HOLDS_MIN, Math.round((spans.run?.seconds ?? 0) * HOLDS_PER_SECOND));
  const exclusive = spans.holds.filter(({ weight }) => weight === null);
  const shared = spans.holds.filter(
    ({ weight, lock }) => weight !== null && capacityOf(spans, lock) === null,
  );
  const permits = spans.holds.filter(({ lock }) => capacityOf(spans, lock) !== null);
  return [
    withContention(
      spans,
      verdict('exclusion', found.exclusive, { count: exclusive.length, wanted, what: 'holds' }),
    ),
    optional('readers and writers', found.mixed, shared, 'shared holds'),
    optional('capacity', found.permits, permits, 'holds of permits'),
  ];
}

function optional(property: string, findings: string[], holds: readonly HoldSpan[], what: string): Verdict {
  if (holds.length === 0) return unseen(property, `no ${what}: the adapter does not offer them`);
  return verdict(property, findings, { count: holds.length, wanted: HOLDS_MIN, what });
}

/** One process alone cannot break exclusion. */
function withContention(spans: Spans, judged: Verdict): Verdict {
  const processes = new Set(spans.holds.map(({ process }) => process));
  if (judged.result !== 'holds' || processes.size > 1) return judged;
  return unseen('exclusion', 'only one process ever held a lock');
}

function capacityOf(spans: Spans, lock: string): number | null {
  for (const { lock: named, note } of spans.notes)
    if (note.kind === 'capacity' && named === lock) return note.permits;
  return null;
}

function sweep(holds: readonly HoldSpan[], capacity: number | null, found: Overlaps): void {
  let active: HoldSpan[] = [];
  // A hold that had already ended when its reply arrived has no duration and overlaps nothing.
  for (const next of holds.filter(({ from, to }) => to > from)) {
    active = active.filter(({ to }) => to > next.from);
    for (const other of active) {
      const both = describe(other, next);
      if (other.weight === null && next.weight === null) found.exclusive.push(both);
      else if (other.weight === null || next.weight === null) found.mixed.push(both);
    }
    active.push(next);
    const taken = active.reduce((sum, { weight }) => sum + (weight ?? 0), 0);
    if (capacity !== null && taken > capacity)
      found.permits.push(`${next.lock}: ${taken} of ${capacity} permits were held ${atSecond(next.from)}`);
  }
}

function describe(other: HoldSpan, next: HoldSpan): string {
  const overlap = inMs(Math.min(other.to, next.to) - next.from);
  const who = `processes ${other.process} and ${next.process}`;
  return `${next.lock}: ${who} both held it ${atSecond(next.from)} for ${overlap}`;
}
