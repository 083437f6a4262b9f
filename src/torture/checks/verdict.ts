/** What a history says about one property. */
export interface Verdict {
  property: string;
  /** `not enough`: too little was done to say that it holds. */
  result: 'holds' | 'violated' | 'not enough';
  /** What was counted, or the first violations. */
  detail: string;
}

const SHOWN = 3;

/**
 * `violated` with the first findings, else `not enough` when fewer than `wanted` cases were seen,
 * else `holds`.
 */
export function verdict(
  property: string,
  findings: readonly string[],
  seen: { readonly count: number; readonly wanted: number; readonly what: string },
): Verdict {
  const { count, wanted, what } = seen;
  if (findings.length > 0) {
    const more = findings.length > SHOWN ? `; and ${findings.length - SHOWN} more` : '';
    return { property, result: 'violated', detail: findings.slice(0, SHOWN).join('; ') + more };
  }
  if (count < wanted) return { property, result: 'not enough', detail: `${count} ${what}, ${wanted} wanted` };
  return { property, result: 'holds', detail: `${count} ${what}` };
}

/** For a property that this history cannot show at all. */
export function unseen(property: string, detail: string): Verdict {
  return { property, result: 'not enough', detail };
}

/** Nanoseconds as milliseconds, for a message. */
export const inMs = (ns: number): string => `${(ns / 1e6).toFixed(1)} ms`;
/** Nanoseconds as the second of the run. */
export const atSecond = (ns: number): string => `at ${(ns / 1e9).toFixed(3)} s`;

/** Of a whole run: what it did not show of exclusion, it has not shown of anything. */
export function overall(verdicts: readonly Verdict[]): Verdict['result'] {
  if (verdicts.some(({ result }) => result === 'violated')) return 'violated';
  const exclusion = verdicts.find(({ property }) => property === 'exclusion');
  return exclusion?.result === 'holds' ? 'holds' : 'not enough';
}
