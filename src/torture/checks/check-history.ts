import type { History } from '../history.ts';
import { checkExclusion } from './exclusion.ts';
import { checkFences } from './fences.ts';
import { checkHealth } from './health.ts';
import { checkProgress } from './progress.ts';
import { checkRegisters } from './registers.ts';
import { Spans } from './spans.ts';
import type { Verdict } from './verdict.ts';

/**
 * Judges a history: one verdict for each property. Also for histories of other programs, of which
 * only the operations are known.
 */
export function checkHistory(history: History): Verdict[] {
  const spans = new Spans(history);
  return [
    ...checkExclusion(spans),
    ...checkFences(spans),
    ...checkRegisters(spans),
    ...checkProgress(spans),
    ...checkHealth(spans),
  ].map((verdict) => faultless(spans, verdict));
}

/** A run in which a fault that was wanted never came has not shown that a property holds. */
function faultless(spans: Spans, verdict: Verdict): Verdict {
  if (spans.run === null || verdict.result !== 'holds') return verdict;
  const seen = new Set(spans.notes.map(({ note }) => (note.kind === 'fault' ? note.fault : '')));
  const missing = spans.run.faults.filter((fault) => !seen.has(fault));
  if (missing.length === 0) return verdict;
  return {
    ...verdict,
    result: 'not enough',
    detail: `${verdict.detail}; never injected: ${missing.join(', ')}`,
  };
}
