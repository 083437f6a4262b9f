import type { Core } from '../core.ts';
import { storedName } from '../use.ts';
import type { LeaderList, LeaderSummary } from './api.ts';
import { standingIn } from './scan.ts';
import type { Scan } from './scan-loop.ts';

const ELECTIONS_MAX = 1_000;

/** The elections of the store that have a candidate, and those in which this process stands. */
export function listLeaders(core: Core, scan: Scan): LeaderList {
  const names = [...new Set([...standingIn(core), ...scan.elections])].sort();
  const held = new Set(core.renewals.holds.map(({ ref }) => ref.id));
  const leaders = names.slice(0, ELECTIONS_MAX).map((name): LeaderSummary => {
    const lock = scan.locks.get(storedName('lock', name));
    const leader = lock?.holders[0] ?? null;
    return {
      name,
      leader,
      candidateCount: (lock?.holderCount ?? 0) + (lock?.waiterCount ?? 0),
      // By the claim: the owner may be set to the same text in several processes.
      isHere: leader !== null && held.has(leader.id),
    };
  });
  const isTruncated = scan.isTruncated || names.length > ELECTIONS_MAX;
  return { takenAtMs: scan.takenAtMs, isTruncated, leaders };
}
