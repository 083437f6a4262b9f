import { ModeMismatchError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import type { ClaimRef, ClaimRequest, Mode, RenewChange, RenewOutcome } from '../../store/store.ts';
import { settlesWithin } from '../../util/backoff.ts';
import { agreedFence, greatest } from './fence.ts';
import type { NodeVote, RedlockNode } from './node.ts';
import type { NodeAnswers } from './node-answers.ts';
import type { NodeSet } from './node-set.ts';

/**
 * The rounds of an operation: each round asks all nodes. A claim takes one vote, and a merge of the
 * fences if the nodes do not agree on one; a claim without a majority is taken back. A renewal and
 * a release take one round each. After a release, nodes that did not answer are told again.
 */

/**
 * How often fences are merged before a claim is given up. Only readers that come at the same time
 * need a second merge.
 */
const MERGES_MAX = 5;
/** Fences of readers that come at the same time are spread over this many µs. */
const FENCE_JITTER_US = 1_000;
/** How long a release is sent to a node that does not answer. */
const RELEASE_MS = 5_000;

/** The votes on one claim. */
export interface ClaimVotes {
  readonly votes: NodeAnswers<NodeVote>;
  /** `null`: no majority. */
  readonly fence: bigint | null;
  /** Another claim may have been refused because of this one. */
  readonly mayHaveBlockedOthers: boolean;
}

const isGranted = (vote: NodeVote): boolean => vote.granted;
const isHeld = (outcome: RenewOutcome): boolean => outcome.held;

/**
 * The claim was made before, and may have a fence at a majority. The nodes that answer first may
 * not be in that majority.
 */
const hasKept = (votes: NodeAnswers<NodeVote>): boolean =>
  votes.count((vote) => vote.granted && vote.isKept) > 0;

const fencesIn = (votes: NodeAnswers<NodeVote>): bigint[] =>
  votes.answers().flatMap((vote) => (vote.granted ? [vote.fence] : []));

/** Asks all nodes for the claim, and merges their fences if they do not agree. */
export async function voteRound(
  nodes: NodeSet,
  request: ClaimRequest,
  proposed: bigint,
  signal: AbortSignal | undefined,
): Promise<ClaimVotes> {
  const { majority } = nodes;
  const { name, id, mode, ttlMs, note } = request;
  const votes = await nodes.ask<NodeVote>({
    id,
    ttlMs,
    signal,
    send: (node, limit) => node.vote({ name, id, mode, ttlMs, note, proposed }, limit),
    isDecided(so) {
      const granted = so.count(isGranted);
      // Decided if another claim has the majority. Otherwise the last answers tell whether any
      // claim can have it.
      if (granted + so.pending < majority) return blockersIn(so, majority).isHeld;
      return granted >= majority && (!hasKept(so) || agreedFence(fencesIn(so), majority) !== null);
    },
  });
  if (votes.count(isGranted) < majority) {
    // While another claim has a majority, a vote of a minority keeps no claim from being granted. A
    // message about its removal would wake this waiter itself, which would claim again at once.
    const mayHaveBlockedOthers = votes.answered < nodes.size && !blockersIn(votes, majority).isHeld;
    return { votes, fence: null, mayHaveBlockedOthers };
  }
  return {
    votes,
    fence: await mergeRounds(nodes, request, fencesIn(votes), signal),
    mayHaveBlockedOthers: true,
  };
}

/** `null`: a majority does not hold the claim any more, or did not answer. */
async function mergeRounds(
  nodes: NodeSet,
  { name, id, ttlMs }: ClaimRequest,
  granted: readonly bigint[],
  signal: AbortSignal | undefined,
): Promise<bigint | null> {
  const { majority } = nodes;
  let fences = granted;
  for (let round = 0; round <= MERGES_MAX; round += 1) {
    const agreed = agreedFence(fences, majority);
    if (agreed !== null) return agreed;
    if (fences.length < majority || round === MERGES_MAX || signal?.aborted === true) return null;
    const aside = round === 0 ? 1 : 1 + Math.floor(nodes.clock.random() * FENCE_JITTER_US);
    const fence = greatest(fences) + BigInt(aside);
    const merged = await nodes.ask<bigint | null>({
      id,
      ttlMs,
      send: (node, limit) => node.merge({ name, id }, fence, limit),
      isDecided(so) {
        const stored = storedIn(so);
        return agreedFence(stored, majority) !== null || stored.length + so.pending < majority;
      },
    });
    fences = storedIn(merged);
  }
  return null;
}

const storedIn = (votes: NodeAnswers<bigint | null>): bigint[] =>
  votes.answers().filter((fence) => fence !== null);

/** The claims that block a claim without a majority, by its votes. */
export interface Blockers {
  /** When a majority of the nodes is free unless a hold is renewed; `null`: never, or not known. */
  readonly freeInMs: number | null;
  /** One of these claims has a majority. */
  readonly isHeld: boolean;
  /** None has a majority, or can have one at nodes that did not answer: the votes are split. */
  readonly isSplit: boolean;
  /** Another program is among them. Its release sends no message. */
  readonly isForeign: boolean;
}

export function blockersIn(votes: NodeAnswers<NodeVote>, majority: number): Blockers {
  const ends: number[] = [];
  const counts = new Map<string, number>();
  let isForeign = false;
  for (const vote of votes.answers()) {
    if (vote.granted) ends.push(0);
    else if ('kind' in vote) {
      if (vote.endsMs !== null) ends.push(vote.endsMs);
      isForeign ||= vote.kind === 'foreign';
      // Several claims that share the lock have no single holder, and are counted together.
      counts.set(vote.holder, (counts.get(vote.holder) ?? 0) + 1);
    }
  }
  ends.sort((a, b) => a - b);
  const most = Math.max(0, ...counts.values());
  return {
    isHeld: most >= majority,
    freeInMs: ends[majority - 1] ?? null,
    // Another program may hold a lock at one node only, on purpose.
    isSplit: !isForeign && counts.size > 0 && most + votes.silent().length < majority,
    isForeign,
  };
}

/**
 * Throws if the votes are not a refusal: too few nodes answered, or the lock is in use in another
 * mode.
 */
export function assertRefused(
  { nodes, majority }: NodeSet,
  { name, mode }: ClaimRequest,
  votes: NodeAnswers<NodeVote>,
): void {
  const present = votes.answers().flatMap((vote) => ('mismatch' in vote ? [vote.mismatch] : []));
  if (present.length >= majority) throw new ModeMismatchError(name, mode, present[0] as Mode);
  const mayStand = nodes.some((node) => mayHave(votes, node));
  if (votes.answered < majority) throw votes.quorumError('claim', isGranted, mayStand ? 'unknown' : 'no');
}

/** The node has granted the claim, or may have: it was asked, and its answer is not known. */
export function mayHave(votes: NodeAnswers<NodeVote>, node: RedlockNode): boolean {
  return votes.of(node)?.granted !== false && !votes.hasDoneNothing(node);
}

/**
 * Takes a claim without a majority back from every node that has it or may have it. Waits only for
 * nodes that are known to have it, and not for long: the others may never answer. Each node gets
 * one command, since a second one could overtake the next time that the claim is made.
 *
 * Resolves to whether all nodes that are known to have had the claim have removed it.
 */
export async function takeBack(
  nodes: NodeSet,
  claim: ClaimRef,
  { votes, mayHaveBlockedOthers }: ClaimVotes,
): Promise<boolean> {
  const having = nodes.nodes.filter((node) => mayHave(votes, node));
  const told = nodes.tell(claim.id, having, RELEASE_MS, (node, limit) =>
    mayHaveBlockedOthers ? node.release(claim, limit) : node.withdraw(claim, limit),
  );
  const known = told.filter((_, index) => votes.of(having[index] as RedlockNode) !== undefined);
  const removed = Promise.all(known).then(
    () => true,
    () => false,
  );
  return (
    (await settlesWithin(nodes.clock, removed, nodes.limitMs(DEFAULTS.settings.ttlMs))) && (await removed)
  );
}

/**
 * Throws a `QuorumError` if neither a majority has renewed the claim nor so many nodes have lost it
 * that no majority is left.
 */
export async function renewRound(
  nodes: NodeSet,
  claim: ClaimRef,
  change: RenewChange,
  signal: AbortSignal | undefined,
): Promise<{ readonly held: boolean; readonly votes: NodeAnswers<RenewOutcome> }> {
  const { majority, size } = nodes;
  const isLost = (votes: NodeAnswers<RenewOutcome>): boolean =>
    votes.answered - votes.count(isHeld) > size - majority;
  const votes = await nodes.ask<RenewOutcome>({
    id: claim.id,
    ttlMs: change.ttlMs,
    signal,
    send: (node, limit) => node.renew(claim, change, limit),
    isDecided: (so) => so.count(isHeld) >= majority || isLost(so),
  });
  if (votes.count(isHeld) >= majority) return { held: true, votes };
  if (isLost(votes)) return { held: false, votes };
  throw votes.quorumError('renewal', isHeld, 'unknown');
}

/**
 * The claim is gone when no majority can hold it any more. Then every node that had counted for it
 * is among those that answered.
 */
export async function removeRound(
  nodes: NodeSet,
  verb: string,
  claim: ClaimRef,
  send: (node: RedlockNode, signal: AbortSignal) => Promise<boolean>,
): Promise<boolean> {
  const votes = await nodes.ask<boolean>({
    id: claim.id,
    ttlMs: DEFAULTS.settings.ttlMs,
    send,
    isDecided: (so) => so.answered >= nodes.majority,
  });
  // A node that did not answer may still have the claim, so it is told again.
  void votes.complete.then(() => nodes.tell(claim.id, votes.silent(), RELEASE_MS, send));
  const isRemoved = (removed: boolean): boolean => removed;
  if (votes.answered < nodes.majority) throw votes.quorumError(verb, isRemoved, 'unknown');
  return votes.count(isRemoved) > 0;
}
