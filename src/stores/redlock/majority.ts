import { ModeMismatchError, StoreError } from '../../errors.ts';
import type { ClaimRef, ClaimRequest, Mode, RenewChange, RenewOutcome } from '../../store/store.ts';
import { settlesWithin } from '../../util/backoff.ts';
import { agreedFence, greatest } from './fence.ts';
import type { NodeVote, RedlockNode } from './node.ts';
import type { NodeAnswers } from './node-answers.ts';
import type { NodeSet, Send } from './node-set.ts';

/** Only readers that come at the same time need a second merge. */
const MERGES_MAX = 5;
/** Fences of readers that come at the same time are spread over this many µs. */
const FENCE_JITTER_US = 1_000;
/** How long a release is sent to a node that does not answer. */
const RELEASE_MS = 5_000;

export interface ClaimVotes {
  readonly votes: NodeAnswers<NodeVote>;
  /** `null`: no majority. */
  readonly fence: bigint | null;
  /** Another claim may have been refused because of this one. */
  readonly mayHaveBlockedOthers: boolean;
}

/** What a majority of the nodes decides, in one or a few rounds of questions to all nodes. */
export class Majority {
  readonly #nodes: NodeSet;
  /** By id: a claim that is being put back, or may have to be. Aborts when the claim is removed. */
  readonly #reinstalls = new Map<string, AbortController>();

  constructor(nodes: NodeSet) {
    this.#nodes = nodes;
  }

  /** Asks all nodes for the claim, and merges their fences if they do not agree. */
  async vote(request: ClaimRequest, proposed: bigint, signal: AbortSignal | undefined): Promise<ClaimVotes> {
    const { majority, size } = this.#nodes;
    const { name, id, mode, ttlMs, note } = request;
    const votes = await this.#nodes.ask<NodeVote>({
      id,
      ttlMs,
      signal,
      send: (node, limit) => node.vote({ name, id, mode, ttlMs, note, proposed }, limit),
      isDecided: (so) => {
        const granted = so.count(isGranted);
        // Decided if another claim has the majority. Otherwise the last answers tell whether any
        // claim can have it.
        if (granted + so.pending < majority) return this.blockersIn(so).isHeld;
        if (granted < majority) return false;
        // A claim that was made before may have a fence at a majority. The nodes that answer first
        // may not be in that majority.
        const isKept = so.count((vote) => vote.granted && vote.isKept) > 0;
        return !isKept || agreedFence(fencesIn(so), majority) !== null;
      },
    });
    if (votes.count(isGranted) < majority) {
      // While another claim has a majority, a vote of a minority keeps no claim from being granted. A
      // message about its removal would wake this waiter itself, which would claim again at once.
      const mayHaveBlockedOthers = votes.answered < size && !this.blockersIn(votes).isHeld;
      return { votes, fence: null, mayHaveBlockedOthers };
    }
    const fence = await this.#merge(request, fencesIn(votes), signal);
    return { votes, fence, mayHaveBlockedOthers: true };
  }

  /** `null`: a majority does not hold the claim any more, or did not answer. */
  async #merge(
    { name, id, ttlMs }: ClaimRequest,
    granted: readonly bigint[],
    signal: AbortSignal | undefined,
  ): Promise<bigint | null> {
    const { majority, clock } = this.#nodes;
    let fences = granted;
    for (let round = 0; round <= MERGES_MAX; round += 1) {
      const agreed = agreedFence(fences, majority);
      if (agreed !== null) return agreed;
      if (fences.length < majority || round === MERGES_MAX || signal?.aborted === true) return null;
      const aside = round === 0 ? 1 : 1 + Math.floor(clock.random() * FENCE_JITTER_US);
      const fence = greatest(fences) + BigInt(aside);
      const merged = await this.#nodes.ask<bigint | null>({
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

  /** The claims that block a claim without a majority, by its votes. */
  blockersIn(votes: NodeAnswers<NodeVote>) {
    const { majority } = this.#nodes;
    const ends: number[] = [];
    const counts = new Map<string, number>();
    let isForeign = false;
    for (const vote of votes.answers()) {
      if (vote.granted) ends.push(0);
      else if ('holder' in vote) {
        if (vote.endsMs !== null) ends.push(vote.endsMs);
        isForeign ||= vote.isForeign;
        // Several claims that share the lock have no single holder, and are counted together.
        counts.set(vote.holder, (counts.get(vote.holder) ?? 0) + 1);
      }
    }
    ends.sort((a, b) => a - b);
    const most = Math.max(0, ...counts.values());
    return {
      /** One of these claims has a majority. */
      isHeld: most >= majority,
      /** When a majority of the nodes is free unless a hold is renewed; `null`: never, or not known. */
      freeInMs: ends[majority - 1] ?? null,
      /** None can have a majority. Another program may hold a lock at one node only, on purpose. */
      isSplit: !isForeign && counts.size > 0 && most + votes.silent().length < majority,
      /** Another program is among them. Its release sends no message. */
      isForeign,
    };
  }

  /**
   * Takes back a claim without a majority or without a fence. Throws if it may still stand, if too few
   * nodes answered, or if the lock is in use in another mode.
   */
  async refuse(request: ClaimRequest, claimed: ClaimVotes, signal: AbortSignal | undefined): Promise<void> {
    const { majority } = this.#nodes;
    const { votes } = claimed;
    // A caller that has given up removes the claim. A command sent now could undo a later one.
    const isGivenUp = signal?.aborted === true;
    const isGone = isGivenUp ? this.#mayBeAt(votes).length === 0 : await this.takeBack(request, claimed);
    if (!isGone && (isGivenUp || votes.count(isGranted) >= majority)) {
      // The claim must not be reported as refused: no other claim could be granted for its TTL.
      const problem = 'The claim was given up, or not agreed on in time, and nodes may have it still';
      throw new StoreError(problem, { applied: 'unknown' });
    }
    const present = votes.answers().flatMap((vote) => ('mismatch' in vote ? [vote.mismatch] : []));
    if (present.length >= majority)
      throw new ModeMismatchError(request.name, request.mode, present[0] as Mode);
    if (votes.answered >= majority) return;
    throw votes.quorumError('claim', isGranted, this.#mayBeAt(votes).length > 0 ? 'unknown' : 'no');
  }

  /** The nodes that have granted the claim, or may have: they were asked, and did not answer. */
  #mayBeAt(votes: NodeAnswers<NodeVote>): readonly RedlockNode[] {
    return this.#nodes.nodes.filter(
      (node) => votes.of(node)?.granted !== false && !votes.hasDoneNothing(node),
    );
  }

  /**
   * Takes a claim without a majority back from every node that has it or may have it. Waits only for
   * nodes that are known to have it, and not for long: the others may never answer. Each node gets
   * one command, since a second one could overtake the next time that the claim is made. Resolves to
   * whether all nodes that are known to have had the claim have removed it.
   */
  async takeBack(claim: ClaimRef, { votes, mayHaveBlockedOthers }: ClaimVotes): Promise<boolean> {
    const nodes = this.#nodes;
    const send: Send<boolean> = (node, limit) =>
      mayHaveBlockedOthers ? node.release(claim, limit) : node.withdraw(claim, limit);
    const removals: Promise<boolean>[] = [];
    for (const node of this.#mayBeAt(votes)) {
      const removal = nodes.tell(node, claim.id, RELEASE_MS, send);
      if (votes.of(node) === undefined) removal.catch(() => {});
      else removals.push(removal);
    }
    const removed = Promise.all(removals);
    const isSettled = await settlesWithin(nodes.clock, removed, nodes.limitMs());
    return isSettled && (await removed.then(() => true).catch(() => false));
  }

  /** Throws a `QuorumError` if the answers do not tell whether a majority has the claim. */
  async renew(claim: ClaimRef, change: RenewChange, signal: AbortSignal | undefined): Promise<boolean> {
    const { majority, size } = this.#nodes;
    const isHeld = ({ held }: RenewOutcome): boolean => held;
    const isLost = (so: NodeAnswers<RenewOutcome>): boolean =>
      so.answered - so.count(isHeld) > size - majority;
    const asked = this.#nodes.ask<RenewOutcome>({
      id: claim.id,
      ttlMs: change.ttlMs,
      signal,
      send: (node, limit) => node.renew(claim, change, limit),
      isDecided: (so) => so.count(isHeld) >= majority || isLost(so),
    });
    this.#reinstallLater(claim, change, asked);
    const votes = await asked;
    if (isLost(votes)) return false;
    if (votes.count(isHeld) < majority) throw votes.quorumError('renewal', isHeld, 'unknown');
    return true;
  }

  /**
   * Which nodes do not have the claim is known when all have answered. The claim may be released
   * before, also before a majority has answered.
   */
  #reinstallLater(claim: ClaimRef, change: RenewChange, asked: Promise<NodeAnswers<RenewOutcome>>): void {
    if (this.#reinstalls.has(claim.id)) return;
    const controller = new AbortController();
    this.#reinstalls.set(claim.id, controller);
    const isOver = (): void => void this.#reinstalls.delete(claim.id);
    asked.then((votes) => this.#reinstall(claim, change, votes, controller.signal)).then(isOver, isOver);
  }

  /**
   * Puts a claim back at nodes that have lost it, for example by a restart, while a majority still
   * holds it. Otherwise the claim would lose its majority after a few restarts. A claim that was put
   * back never counts for a majority: only the renewal does.
   */
  async #reinstall(
    { name, id }: ClaimRef,
    { ttlMs }: RenewChange,
    votes: NodeAnswers<RenewOutcome>,
    removed: AbortSignal,
  ): Promise<void> {
    const nodes = this.#nodes;
    await votes.complete;
    const missing = nodes.nodes.filter((node) => votes.of(node)?.held === false);
    const holders = nodes.nodes.filter((node) => votes.of(node)?.held === true);
    const [holder] = holders;
    if (missing.length === 0 || holder === undefined || removed.aborted) return;
    if (holders.length < nodes.majority) return;
    const limitMs = nodes.limitMs(ttlMs);
    const claims = await nodes.tell(holder, null, limitMs, (node, limit) => node.read(name, limit));
    const own = claims.find((claim) => claim.granted && claim.id === id);
    if (own === undefined || removed.aborted) return;
    const vote = { name, id, mode: own.mode, ttlMs, note: own.note ?? '', proposed: own.fence ?? 0n };
    // A release that follows is sent after this.
    await Promise.allSettled(
      missing.map((each) => nodes.tell(each, id, limitMs, (node, limit) => node.vote(vote, limit))),
    );
  }

  /**
   * The claim is gone when no majority can hold it any more. Then every node that had counted for it
   * is among those that answered.
   */
  async remove(verb: string, { id }: ClaimRef, send: Send<boolean>): Promise<boolean> {
    this.#reinstalls.get(id)?.abort();
    const { majority } = this.#nodes;
    const votes = await this.#nodes.ask<boolean>({
      id,
      send,
      isDecided: (so) => so.answered >= majority,
    });
    // A node that did not answer may still have the claim, so it is told again.
    const tell = (node: RedlockNode): Promise<boolean> => this.#nodes.tell(node, id, RELEASE_MS, send);
    void votes.complete.then(() => Promise.allSettled(votes.silent().map(tell)));
    const isRemoved = (removed: boolean): boolean => removed;
    if (votes.answered < majority) throw votes.quorumError(verb, isRemoved, 'unknown');
    return votes.count(isRemoved) > 0;
  }
}

const isGranted = (vote: NodeVote): boolean => vote.granted;

const fencesIn = (votes: NodeAnswers<NodeVote>): bigint[] =>
  votes.answers().flatMap((vote) => (vote.granted ? [vote.fence] : []));

const storedIn = (votes: NodeAnswers<bigint | null>): bigint[] =>
  votes.answers().filter((fence) => fence !== null);
