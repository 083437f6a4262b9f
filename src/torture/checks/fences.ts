import type { HoldSpan, Spans } from './spans.ts';
import { atSecond, unseen, type Verdict, verdict } from './verdict.ts';

const FENCES_MIN = 10;

/** Fences of exclusive holds rise, and none is given twice. */
export function checkFences(spans: Spans): Verdict[] {
  const fenced = spans.holds.filter(({ fence, weight }) => fence !== null && weight === null);
  if (fenced.length === 0)
    return ['fence order', 'fence uniqueness'].map((each) => unseen(each, 'the adapter gives no fences'));
  const order: string[] = [];
  const repeats: string[] = [];
  for (const lock of spans.locks) {
    const holds = fenced.filter((hold) => hold.lock === lock).sort((a, b) => a.from - b.from);
    order.push(...falls(holds));
    const seen = new Set<bigint | null>();
    for (const { fence, from } of holds) {
      if (seen.has(fence)) repeats.push(`${lock}: fence ${fence} was given again ${atSecond(from)}`);
      seen.add(fence);
    }
  }
  const enough = { count: fenced.length, wanted: FENCES_MIN, what: 'fences' };
  return [verdict('fence order', order, enough), verdict('fence uniqueness', repeats, enough)];
}

/**
 * Compares holds that do not overlap. A hold that had already ended when its reply arrived is left
 * out: others may have been granted the lock before it was recorded.
 */
function falls(holds: readonly HoldSpan[]): string[] {
  const found: string[] = [];
  const ended: HoldSpan[] = [];
  let greatest: HoldSpan | null = null;
  for (const next of holds.filter(({ from, to }) => to > from)) {
    for (const hold of ended.splice(0)) {
      if (hold.to > next.from) ended.push(hold);
      else if (greatest === null || (hold.fence ?? 0n) > (greatest.fence ?? 0n)) greatest = hold;
    }
    if (greatest !== null && (next.fence ?? 0n) <= (greatest.fence ?? 0n))
      found.push(`${next.lock}: fence ${next.fence} came ${atSecond(next.from)} after ${greatest.fence}`);
    ended.push(next);
  }
  return found;
}
