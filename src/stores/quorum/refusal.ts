import type { NodeVote } from './node.ts';

/** What the votes of a claim without a majority say of those who stand in its way. */
export interface Standing {
  /** After so long a majority of the nodes is free, if nobody renews; `null`: never by itself, or nobody knows. */
  readonly freeInMs: number | null;
  /** Somebody has a majority. */
  readonly isHeld: boolean;
  /** Nobody has a majority, nor can have one at nodes that did not answer: the votes were split, and asking again soon is worth it. */
  readonly isSplit: boolean;
  /** Another program is among them, whose release wakes nobody. */
  readonly isForeign: boolean;
}

export function standing(votes: readonly (NodeVote | undefined)[], majority: number): Standing {
  const ends: number[] = [];
  const counts = new Map<string, number>();
  let silent = 0;
  let isForeign = false;
  for (const vote of votes) {
    if (vote === undefined) silent += 1;
    else if (vote.granted) ends.push(0);
    else if ('kind' in vote) {
      if (vote.endsMs !== null) ends.push(vote.endsMs);
      isForeign ||= vote.kind === 'foreign';
      // Several who share it stand together.
      counts.set(vote.holder, (counts.get(vote.holder) ?? 0) + 1);
    }
  }
  ends.sort((a, b) => a - b);
  const most = Math.max(0, ...counts.values());
  return {
    isHeld: most >= majority,
    freeInMs: ends[majority - 1] ?? null,
    // Another program may hold a lock at one node only, and mean it.
    isSplit: !isForeign && counts.size > 0 && most + silent < majority,
    isForeign,
  };
}
