import type { Clock } from '../../clock.ts';
import { StoreError, UnsupportedError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import type { DiagnoseContext, Finding } from '../../store/finding.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Store,
  StoredClaim,
  Traits,
  Waiter,
  WatchTarget,
} from '../../store/store.ts';
import { type RetryPolicy, retryAfterMs } from '../shared/retry-after.ts';
import { storeClosed } from '../shared/store-closed.ts';
import { WakeList } from '../shared/wake-list.ts';
import { greatest } from './fence.ts';
import { listAtMajority, readAtMajority } from './inspect.ts';
import {
  assertRefused,
  blockersIn,
  type ClaimVotes,
  mayHave,
  removeRound,
  renewRound,
  takeBack,
  voteRound,
} from './majority.ts';
import type { NodeVote, RedlockNode } from './node.ts';
import type { NodeAnswers } from './node-answers.ts';
import { NodeSet } from './node-set.ts';
import { Reinstalls } from './reinstalls.ts';
import { ReleaseWatch } from './release-watch.ts';

export interface RedlockOptions {
  readonly clock: Clock;
  /** The share of a TTL by which clocks may run apart. */
  readonly drift: number;
}

/** The scripts count fences in doubles. */
const FENCE_MAX = 2n ** 53n - 2n;

/**
 * The first waiter of a process asks at least this often: no node knows that it waits, so no node
 * grants it the lock.
 */
const FIRST_MS = { min: 3_000, max: 5_000 };

const RETRY: RetryPolicy = {
  // For the waiters behind the first one of this process, which wakes them.
  keepPositionMs: { min: 30_000, max: 45_000 },
  unsubscribedMs: { min: 30_000, max: 45_000 },
  firstMs: FIRST_MS,
  afterEndMs: { min: 2, max: 25 },
  foreignHeadMs: { min: 500, max: 1_000 },
  foreignMs: { min: 500, max: 1_000 },
  split: { rounds: 12, minMs: 30 },
};

/**
 * A claim that a majority of independent nodes grants is held. There is no order between processes,
 * and permits cannot be counted. Nodes push no grants, because a message of one node says nothing
 * about a majority.
 */
export class RedlockStore implements Store {
  readonly kind = 'redlock';
  readonly traits: Traits = { lifetime: 'lease', ordered: false, counting: false, remembers: true };
  readonly #nodes: NodeSet;
  readonly #clock: Clock;
  readonly #drift: number;
  readonly #waiting: WakeList;
  readonly #releases: ReleaseWatch;
  readonly #reinstalls: Reinstalls;
  #lastProposed = 0n;
  #closing: Promise<void> | null = null;

  constructor(nodes: readonly RedlockNode[], { clock, drift }: RedlockOptions) {
    this.#clock = clock;
    this.#drift = drift;
    this.#nodes = new NodeSet(nodes, clock);
    this.#waiting = new WakeList(clock, FIRST_MS);
    this.#releases = new ReleaseWatch(this.#nodes, (name) => this.#waiting.wakeFirst(name));
    this.#reinstalls = new Reinstalls(this.#nodes);
  }

  async claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    this.#assertOpen();
    if (request.mode.kind === 'permits')
      throw new UnsupportedError('A majority of nodes cannot count permits');
    if (request.fenceAbove > FENCE_MAX) {
      throw new StoreError(`Redis cannot count above fence ${request.fenceAbove}`, { applied: 'no' });
    }
    if (waiter !== undefined && this.#waiting.get(request.id) !== undefined)
      this.#waiting.add(request, waiter);
    const startedMs = this.#clock.monotonicMs();
    const proposed = this.#proposal(request.fenceAbove);
    const claimed = await voteRound(this.#nodes, request, proposed, signal);
    const sameServer = this.#nodes.sameServer();
    if (sameServer !== null) {
      await takeBack(this.#nodes, request, claimed);
      throw sameServer;
    }
    if (claimed.fence !== null) return await this.#granted(request, claimed, claimed.fence);
    const roundMs = this.#clock.monotonicMs() - startedMs;
    if (await this.#mayStand(request, claimed, signal)) {
      // The claim must not be reported as refused: no other claim could be granted for its TTL.
      const problem = 'The claim was given up, or not agreed on in time, and nodes may have it still';
      throw new StoreError(problem, { applied: 'unknown' });
    }
    assertRefused(this.#nodes, request, claimed.votes);
    // A caller that has given up has released the claim already.
    const isAwaited = request.wait && signal?.aborted !== true;
    if (isAwaited && waiter !== undefined) {
      this.#waiting.add(request, waiter);
      this.#waiting.enqueue(request);
      // A release while the nodes were asked has woken the first waiter. If this is the first one, it
      // is woken as soon as the releases of the lock are watched.
      this.#releases.begin(request.name);
    }
    return { granted: false, retryAfterMs: this.#retryAfterMs(request, claimed.votes, roundMs) };
  }

  /**
   * A fence that rises with the clock. All nodes accept a proposal that is above their counters, and
   * it seldom is not: the clocks of clients are seldom so far apart.
   */
  #proposal(above: bigint): bigint {
    const now = BigInt(Math.floor(this.#clock.wallMs())) * 1000n;
    this.#lastProposed = greatest([this.#lastProposed + 1n, above + 1n, now]);
    return this.#lastProposed;
  }

  async #granted(request: ClaimRequest, claimed: ClaimVotes, fence: bigint): Promise<ClaimOutcome> {
    const { name, mode, ttlMs } = request;
    if (fence > FENCE_MAX + 1n) {
      // A double cannot hold one more than this, so the next fence would be the same.
      const isGone = await takeBack(this.#nodes, request, claimed);
      const problem = 'The nodes cannot count fences any higher';
      throw new StoreError(problem, { applied: isGone ? 'no' : 'unknown' });
    }
    this.#waiting.setDue(name, ttlMs);
    this.#dropWaiter(request);
    // Readers of this process that waited for the same writer are granted together.
    if (mode.kind === 'shared') this.#waiting.wakeFirst(name);
    return { granted: true, fence, validForMs: this.#trustedMs(ttlMs) };
  }

  /** After a claim without a majority or without a fence: whether the caller has to remove it. */
  async #mayStand(claim: ClaimRef, claimed: ClaimVotes, signal: AbortSignal | undefined): Promise<boolean> {
    const { votes } = claimed;
    // A caller that has given up removes the claim by itself. A command sent now could undo a later
    // one.
    if (signal?.aborted === true) return this.#nodes.nodes.some((node) => mayHave(votes, node));
    const isTakenBack = await takeBack(this.#nodes, claim, claimed);
    return !isTakenBack && votes.count((vote) => vote.granted) >= this.#nodes.majority;
  }

  #dropWaiter(claim: ClaimRef): void {
    if (this.#waiting.get(claim.id) === undefined) return;
    this.#waiting.remove(claim);
    if (!this.#waiting.hasQueue(claim.name)) this.#releases.end(claim.name);
  }

  #retryAfterMs({ name, id }: ClaimRequest, votes: NodeAnswers<NodeVote>, roundMs: number): number {
    const { freeInMs, isSplit, isForeign } = blockersIn(votes, this.#nodes.majority);
    const refusal = { endsInMs: freeInMs, isHead: false, isForeign, splitRoundMs: isSplit ? roundMs : null };
    const { lookMs, keepMs } = retryAfterMs(RETRY, this.#clock, refusal, true);
    this.#waiting.setDue(name, lookMs);
    const retryMs = isSplit || this.#waiting.isFirst(name, id) ? lookMs : keepMs;
    return Math.max(Math.ceil(retryMs), 1);
  }

  async renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    this.#assertOpen();
    const { held, votes } = await renewRound(this.#nodes, claim, change, signal);
    if (held) {
      this.#reinstalls.watch(claim, change, votes);
      return { held: true, validForMs: this.#trustedMs(change.ttlMs) };
    }
    // The hold is lost. What is left of it at a minority would only block other claims.
    if (signal?.aborted !== true) void this.release(claim).catch(() => {});
    return { held: false };
  }

  async release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    this.#assertOpen();
    this.#dropWaiter(claim);
    this.#reinstalls.cancel(claim);
    if (signal?.aborted === true) throw new StoreError('The release was not sent', { applied: 'no' });
    return await removeRound(this.#nodes, 'release', claim, (node, limit) => node.release(claim, limit));
  }

  async evict(claim: ClaimRef): Promise<boolean> {
    this.#assertOpen();
    this.#reinstalls.cancel(claim);
    return await removeRound(this.#nodes, 'eviction', claim, (node, limit) => node.evict(claim, limit));
  }

  async watch(target: WatchTarget, onChange: () => void): Promise<AsyncDisposable> {
    this.#assertOpen();
    const { nodes } = this.#nodes;
    const watches = await Promise.all(
      nodes.map((node) => node.watch(target, () => onChange()).catch(() => null)),
    );
    return {
      async [Symbol.asyncDispose]() {
        await Promise.all(watches.map((watch) => watch?.[Symbol.asyncDispose]()));
      },
    };
  }

  async read(name: string): Promise<readonly StoredClaim[]> {
    this.#assertOpen();
    return await readAtMajority(this.#nodes, name);
  }

  async *list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    this.#assertOpen();
    yield* listAtMajority(this.#nodes, prefix, signal);
  }

  async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    const { diagnoseRedlock } = await import('./diagnose.ts');
    return await diagnoseRedlock(context, this.#nodes.nodes);
  }

  close(): Promise<void> {
    this.#waiting.clear();
    this.#releases.clear();
    this.#closing ??= this.#nodes.close();
    return this.#closing;
  }

  #assertOpen(): void {
    if (this.#closing !== null) throw storeClosed();
  }

  /** The core subtracts its own drift from this. */
  #trustedMs(ttlMs: number): number {
    return Math.min((ttlMs * (1 - this.#drift)) / (1 - DEFAULTS.driftShare), ttlMs);
  }
}
