import type { FindingLevel, Verdict } from '../../store/finding.ts';

const BY_WEIGHT: readonly FindingLevel[] = ['ok', 'unknown', 'warn', 'fail'];
/** A verdict names at most this many servers. */
const NAMED_MAX = 3;

/** One check of several servers: the worst of their verdicts, with the servers that it is about. */
export function worstOf(verdicts: ReadonlyArray<readonly [server: string, verdict: Verdict]>): Verdict {
  const weightOf = ([, { level }]: readonly [string, Verdict]): number => BY_WEIGHT.indexOf(level);
  const worst = verdicts.reduce((a, b) => (weightOf(b) > weightOf(a) ? b : a));
  if (verdicts.length === 1) return worst[1];
  const alike = verdicts.filter(([, { level }]) => level === worst[1].level);
  const isOne = alike.length === verdicts.length && alike.every(([, { found }]) => found === worst[1].found);
  if (isOne) return { ...worst[1], found: `all ${verdicts.length} servers: ${worst[1].found}` };
  const named = alike.slice(0, NAMED_MAX).map(([server, { found }]) => `${server}: ${found}`);
  const more = alike.length > NAMED_MAX ? [`${alike.length - NAMED_MAX} more`] : [];
  return { ...worst[1], found: [...named, ...more].join('; ') };
}

/** The same, for a check that is made of each server. */
export async function worstAmong<Server extends { readonly label: string }>(
  servers: readonly Server[],
  check: (server: Server) => Promise<Verdict>,
): Promise<Verdict> {
  return worstOf(await Promise.all(servers.map(async (each) => [each.label, await check(each)] as const)));
}
