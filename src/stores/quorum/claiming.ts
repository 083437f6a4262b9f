import { ModeMismatchError, type QuorumError, StoreError } from '../../errors.ts';
import type { ClaimOutcome, ClaimRequest, Mode } from '../../store/store.ts';
import type { Ballot } from './ballot.ts';
import { agreedFence, greatest } from './fence.ts';
import type { NodeVote } from './node.ts';
import type { Panel } from './panel.ts';
import { standing } from './refusal.ts';

/** Rounds of merging before a claim is given up: the second is needed only where readers come at the same time. */
const MERGES_MAX = 5;
/** Readers who come together step aside by up to so many µs. */
const ASIDE_US = 1_000;

/** What the nodes said of one claim. */
export interface Claimed {
  readonly ballot: Ballot<NodeVote>;
  /** `null`: no majority. */
  readonly fence: bigint | null;
  /** Somebody may have been refused because of us who would not be now. */
  readonly stoodInTheWay: boolean;
}

const isGranted = (vote: NodeVote): boolean => vote.granted;

/** We have asked for this claim before: the fence that it may have by now is at a majority, but perhaps not at the first nodes that answer. */
const hasKept = (votes: Ballot<NodeVote>): boolean => votes.count((vote) => vote.granted && vote.isKept) > 0;

const fencesIn = (votes: Ballot<NodeVote>): bigint[] =>
  votes.answers().flatMap((vote) => (vote.granted ? [vote.fence] : []));

/** Asks all nodes for the claim, and for its fence again where they do not agree on it. */
export async function claimAtMajority(
  panel: Panel,
  request: ClaimRequest,
  proposed: bigint,
  signal: AbortSignal | undefined,
): Promise<Claimed> {
  const { majority } = panel;
  const { name, id, mode, ttlMs, note } = request;
  const ballot = await panel.ask(
    id,
    ttlMs,
    (node, limit) => node.vote({ name, id, mode, ttlMs, note, proposed }, limit),
    (votes) => {
      const granted = votes.count(isGranted);
      if (granted + votes.pending < majority) return isHeldByOther(panel, votes);
      return granted >= majority && (!hasKept(votes) || agreedFence(fencesIn(votes), majority) !== null);
    },
  );
  panel.assertDistinct();
  if (ballot.count(isGranted) < majority) {
    return { ballot, fence: null, stoodInTheWay: ballot.answered < panel.size };
  }
  return {
    ballot,
    fence: await settleFence(panel, request, fencesIn(ballot), signal),
    stoodInTheWay: true,
  };
}

/** Somebody has the majority that we cannot have. Otherwise the last answers tell whether anybody may yet. */
function isHeldByOther(panel: Panel, votes: Ballot<NodeVote>): boolean {
  return standing(votesOf(panel, votes), panel.majority).isHeld;
}

const votesOf = (panel: Panel, ballot: Ballot<NodeVote>): (NodeVote | undefined)[] =>
  panel.nodes.map((node) => ballot.of(node));

/** `null`: a majority does not hold the claim any more, or could not be asked. */
async function settleFence(
  panel: Panel,
  { name, id, ttlMs }: ClaimRequest,
  granted: readonly bigint[],
  signal: AbortSignal | undefined,
): Promise<bigint | null> {
  const { majority } = panel;
  let fences = granted;
  for (let round = 0; round <= MERGES_MAX; round += 1) {
    const agreed = agreedFence(fences, majority);
    if (agreed !== null) return agreed;
    if (fences.length < majority || round === MERGES_MAX || signal?.aborted === true) return null;
    const aside = round === 0 ? 1 : 1 + Math.floor(panel.clock.random() * ASIDE_US);
    const fence = greatest(fences) + BigInt(aside);
    const merged = await panel.ask(
      id,
      ttlMs,
      (node, limit) => node.merge({ name, id }, fence, limit),
      (answers) => {
        const held = stored(answers);
        return agreedFence(held, majority) !== null || held.length + answers.pending < majority;
      },
    );
    fences = stored(merged);
  }
  return null;
}

function stored(ballot: Ballot<bigint | null>): bigint[] {
  return ballot.answers().filter((fence) => fence !== null);
}

/** When to ask again after a claim without a majority. Throws where nobody could say, or where the modes do not go together. */
export function refusal(
  panel: Panel,
  request: ClaimRequest,
  ballot: Ballot<NodeVote>,
  tookMs: number,
): ClaimOutcome {
  const mismatch = mismatchIn(ballot, panel.majority);
  if (mismatch !== null) throw new ModeMismatchError(request.name, request.mode, mismatch);
  if (ballot.answered < panel.majority) throw noMajority(panel, ballot);
  const { freeInMs, isSplit, isForeign } = standing(votesOf(panel, ballot), panel.majority);
  return {
    granted: false,
    retryAfterMs: panel.retryAfterMs(request, { freeInMs, isSplit, isForeign, tookMs }),
  };
}

function mismatchIn(ballot: Ballot<NodeVote>, majority: number): Mode | null {
  const modes = ballot.answers().flatMap((vote) => ('mismatch' in vote ? [vote.mismatch] : []));
  return modes.length >= majority ? (modes[0] ?? null) : null;
}

function noMajority(panel: Panel, ballot: Ballot<NodeVote>): QuorumError {
  const applied = ballot.count(isGranted) === 0 && ballot.pending === 0 && ballot.errors.every(isDefinite);
  return panel.quorumError('claim', ballot.votes(isGranted), applied ? 'no' : 'unknown');
}

function isDefinite(error: unknown): boolean {
  return error instanceof StoreError && error.applied === 'no';
}
