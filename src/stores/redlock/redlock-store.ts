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
import { disposable } from '../shared/callback-index.ts';
import { type RetryPolicy, retryAfterMs } from '../shared/retry-after.ts';
import { storeClosed } from '../shared/store-closed.ts';
import { WakeList } from '../shared/wake-list.ts';
import { greatest } from './fence.ts';
import { listAtMajority, readAtMajority } from './inspect.ts';
import { type ClaimVotes, Majority } from './majority.ts';
import type { NodeVote, RedlockNode } from './node.ts';
import type { NodeAnswers } from './node-answers.ts';
import { NodeSet } from './node-set.ts';
import { ReleaseWatch } from './release-watch.ts';

export interface RedlockOptions {
  readonly clock: Clock;
  /** The share of a TTL by which clocks may run apart. */
  readonly drift: number;
}

/** The scripts count fences in doubles. */
const FENCE_MAX = 2n ** 53n - 2n;

/** For the first waiter of a process: no node knows that it waits, so no node grants it the lock. */
const FIRST_MS = { min: 3_000, max: 5_000 };

const RETRY: RetryPolicy = {
  // For the waiters behind the first one of this process, which wakes them.
  keepPositionMs: { min: 30_000, max: 45_000 },
  unsubscribedMs: { min: 30_000, max: 45_000 },
  firstMs: FIRST_MS,
  afterEndMs: { min: 2, max: 25 },
  foreignHeadMs: { min: 500, max: 1_000 },
};

/** After a split vote: a random time of up to this many rounds, so that one of the claims asks alone. */
const SPLIT_ROUNDS = 12;
const SPLIT_MIN_MS = 30;

/**
 * A claim that a majority of independent nodes grants is held. There is no order between processes.
 * Nodes push no grants, because a message of one node says nothing about a majority.
 */
export class RedlockStore implements Store {
  readonly kind = 'redlock';
  readonly traits: Traits = { lifetime: 'lease', ordered: false, counting: false, remembers: true };
  readonly #nodes: NodeSet;
  readonly #majority: Majority;
  readonly #drift: number;
  readonly #waiting: WakeList;
  /** By lock: while claims of this process wait for it. */
  readonly #releases = new Map<string, ReleaseWatch>();
  #lastProposed = 0n;
  #closing: Promise<unknown> | null = null;

  constructor(nodes: readonly RedlockNode[], { clock, drift }: RedlockOptions) {
    this.#drift = drift;
    this.#nodes = new NodeSet(nodes, clock);
    this.#majority = new Majority(this.#nodes);
    this.#waiting = new WakeList(clock, FIRST_MS);
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
    const startedMs = this.#nodes.clock.monotonicMs();
    const proposed = this.#proposal(request.fenceAbove);
    const claimed = await this.#majority.vote(request, proposed, signal);
    const sameServer = this.#nodes.sameServer();
    if (sameServer !== null) {
      await this.#majority.takeBack(request, claimed);
      throw sameServer;
    }
    if (claimed.fence !== null) return await this.#granted(request, claimed, claimed.fence);
    const roundMs = this.#nodes.clock.monotonicMs() - startedMs;
    await this.#majority.refuse(request, claimed, signal);
    // A caller that has given up has released the claim already.
    const isAwaited = request.wait && signal?.aborted !== true;
    if (isAwaited && waiter !== undefined) {
      this.#waiting.add(request, waiter);
      this.#waiting.enqueue(request);
      this.#watchReleases(request.name);
    }
    return { granted: false, retryAfterMs: this.#retryAfterMs(request, claimed.votes, roundMs) };
  }

  /** Rises with the clock, so that it is above the counters of all nodes, which then accept it. */
  #proposal(above: bigint): bigint {
    const now = BigInt(Math.floor(this.#nodes.clock.wallMs())) * 1000n;
    this.#lastProposed = greatest([this.#lastProposed + 1n, above + 1n, now]);
    return this.#lastProposed;
  }

  async #granted(request: ClaimRequest, claimed: ClaimVotes, fence: bigint): Promise<ClaimOutcome> {
    const { name, mode, ttlMs } = request;
    if (fence > FENCE_MAX + 1n) {
      // A double cannot hold one more than this, so the next fence would be the same.
      const isGone = await this.#majority.takeBack(request, claimed);
      const problem = 'The nodes cannot count fences any higher';
      throw new StoreError(problem, { applied: isGone ? 'no' : 'unknown' });
    }
    this.#waiting.setDue(name, ttlMs);
    this.#dropWaiter(request);
    // Readers of this process that waited for the same writer are granted together.
    if (mode.kind === 'shared') this.#waiting.wakeFirst(name);
    return { granted: true, fence, validForMs: this.#trustedMs(ttlMs) };
  }

  /**
   * A release while the nodes were asked has woken the first waiter. If this is the first one, it is
   * woken as soon as the releases of the lock are watched.
   */
  #watchReleases(name: string): void {
    if (this.#releases.has(name)) return;
    const watch = new ReleaseWatch(this.#nodes, name, () => this.#waiting.wakeFirst(name));
    this.#releases.set(name, watch);
  }

  #dropWaiter(claim: ClaimRef): void {
    this.#waiting.remove(claim);
    if (this.#waiting.hasQueue(claim.name)) return;
    this.#releases.get(claim.name)?.end();
    this.#releases.delete(claim.name);
  }

  #retryAfterMs({ name, id }: ClaimRequest, votes: NodeAnswers<NodeVote>, roundMs: number): number {
    const { freeInMs, isSplit, isForeign } = this.#majority.blockersIn(votes);
    const { clock } = this.#nodes;
    const refusal = { endsInMs: freeInMs, isForeign };
    const { lookMs, keepMs } = retryAfterMs(RETRY, clock, refusal, true);
    const splitMs = clock.random() * Math.max(roundMs * SPLIT_ROUNDS, SPLIT_MIN_MS);
    const firstMs = isSplit ? splitMs : lookMs;
    this.#waiting.setDue(name, firstMs);
    const retryMs = isSplit || this.#waiting.isFirst(name, id) ? firstMs : keepMs;
    return Math.max(Math.ceil(retryMs), 1);
  }

  async renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    this.#assertOpen();
    const isHeld = await this.#majority.renew(claim, change, signal);
    if (isHeld) return { held: true, validForMs: this.#trustedMs(change.ttlMs) };
    // The hold is lost. What is left of it at a minority would only block other claims.
    if (signal?.aborted !== true) void this.release(claim).catch(() => {});
    return { held: false };
  }

  async release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    this.#assertOpen();
    this.#dropWaiter(claim);
    if (signal?.aborted === true) throw new StoreError('The release was not sent', { applied: 'no' });
    return await this.#majority.remove('release', claim, (node, limit) => node.release(claim, limit));
  }

  async evict(claim: ClaimRef): Promise<boolean> {
    this.#assertOpen();
    return await this.#majority.remove('eviction', claim, (node, limit) => node.evict(claim, limit));
  }

  async watch(target: WatchTarget, onChange: () => void): Promise<AsyncDisposable> {
    this.#assertOpen();
    const { nodes } = this.#nodes;
    const watches = await Promise.all(
      nodes.map((node) => node.watch(target, () => onChange()).catch(() => null)),
    );
    return disposable(() => Promise.all(watches.map((watch) => watch?.[Symbol.asyncDispose]())));
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

  async close(): Promise<void> {
    this.#waiting.clear();
    for (const watch of this.#releases.values()) watch.end();
    this.#releases.clear();
    this.#closing ??= Promise.all(this.#nodes.nodes.map((node) => node.close()));
    await this.#closing;
  }

  #assertOpen(): void {
    if (this.#closing !== null) throw storeClosed();
  }

  /** The core subtracts its own drift from this. */
  #trustedMs(ttlMs: number): number {
    return Math.min((ttlMs * (1 - this.#drift)) / (1 - DEFAULTS.driftShare), ttlMs);
  }
}
