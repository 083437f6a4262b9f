import type { StoredClaim } from '../../store/store.ts';
import { agreedFence, greatest } from './fence.ts';
import type { RedlockNode } from './node.ts';
import type { NodeAnswers } from './node-answers.ts';
import type { NodeSet } from './node-set.ts';

/** The claims that a majority of the nodes holds. Throws a `QuorumError` if too few answer. */
export async function readAtMajority(nodes: NodeSet, name: string): Promise<StoredClaim[]> {
  const votes = await nodes.ask({
    id: null,
    send: (node, limit) => node.read(name, limit),
    // All nodes are waited for: a claim that is held by a bare majority must not be missed.
    isDecided: () => false,
  });
  if (votes.answered < nodes.majority) throw votes.quorumError('look', () => true, 'no');
  return claimsAtMajority(votes.answers().flat(), neededOf(nodes, votes));
}

/** The names of the locks of which a majority has a claim. Throws a `QuorumError` if too few answer. */
export async function* listAtMajority(
  nodes: NodeSet,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncIterable<string> {
  const votes = await nodes.gather((node, limit) => namesAt(node, prefix, limit), signal);
  if (votes.answered < nodes.majority) throw votes.quorumError('listing', () => true, 'no');
  const counts = new Map<string, number>();
  for (const name of votes.answers().flat()) counts.set(name, (counts.get(name) ?? 0) + 1);
  const needed = neededOf(nodes, votes);
  for (const [name, count] of counts) if (count >= needed) yield name;
}

async function namesAt(node: RedlockNode, prefix: string, signal: AbortSignal): Promise<string[]> {
  const names: string[] = [];
  for await (const name of node.list(prefix, signal)) names.push(name);
  return names;
}

/** A silent node counts as one that has the claim: otherwise a hold would disappear with the node. */
function neededOf({ majority, size }: NodeSet, { answered }: NodeAnswers<unknown>): number {
  return Math.max(majority - (size - answered), 1);
}

function claimsAtMajority(claims: readonly StoredClaim[], needed: number): StoredClaim[] {
  const found = new Map<string, StoredClaim[]>();
  for (const claim of claims.filter(({ granted }) => granted))
    found.set(claim.id, [...(found.get(claim.id) ?? []), claim]);
  return [...found.values()].filter((same) => same.length >= needed).map((same) => merged(same, needed));
}

function merged(same: readonly StoredClaim[], needed: number): StoredClaim {
  const [first] = same as [StoredClaim, ...StoredClaim[]];
  const fences = same.map((claim) => claim.fence).filter((fence) => fence !== null);
  const ages = same.map((claim) => claim.heldForMs).filter((ms) => ms !== null);
  const expiries = same.map((claim) => claim.expiresInMs).filter((ms) => ms !== null);
  return {
    ...first,
    fence: agreedFence(fences, needed) ?? (fences.length === 0 ? null : greatest(fences)),
    heldForMs: ages.length === 0 ? null : Math.max(...ages),
    // The hold is over when it has expired at so many nodes that no majority is left.
    expiresInMs: expiries.length < needed ? null : (expiries.sort((a, b) => b - a)[needed - 1] ?? null),
    note: same.map((claim) => claim.note).find((note) => note !== null && note !== '') ?? first.note,
  };
}
