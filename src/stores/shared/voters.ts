import { ok, type Verdict, warn } from '../../store/finding.ts';

/**
 * Judges how many members of a cluster vote. `others`: the members without a vote, and what they
 * do. `alone`: what it means that there is only one voting member.
 */
export function judgeVoters(
  voters: number,
  others: { readonly count: number; readonly do: string },
  alone: string,
): Verdict {
  const voting = `${voters} voting ${voters === 1 ? 'member' : 'members'}`;
  const found = others.count === 0 ? voting : `${voting}, and ${others.count} that only ${others.do}`;
  if (voters === 1) return warn(found, alone, 'Run three or five members.');
  const spare = Math.ceil(voters / 2) - 1;
  const means = `With every member up, locks survive the loss of ${spare}.`;
  if (voters % 2 === 1) return ok(found, means);
  return warn(
    found,
    `${means} One member fewer would be as safe, and a smaller majority would have to agree.`,
    'Run an odd number of members.',
  );
}
