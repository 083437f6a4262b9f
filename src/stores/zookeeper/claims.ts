import type { Clock } from '../../clock.ts';
import { ModeMismatchError, QueueFullError, StoreError } from '../../errors.ts';
import type { ClaimOutcome, ClaimRef, ClaimRequest } from '../../store/store.ts';
import type { Instant } from '../../store/validity.ts';
import {
  asUnknownIfStanding,
  checkCompatible,
  checkFence,
  isOverBound,
  judge,
} from '../shared/claim-order.ts';
import { isNoNode } from './calls.ts';
import type { Claim } from './claim.ts';
import type { ClaimTable } from './claim-table.ts';
import type { LocksTree } from './locks-tree.ts';
import { type NodeName, nodePrefix } from './node-name.ts';
import type { Queue } from './queue.ts';
import type { Session } from './session.ts';

/** How soon a waiting claim asks again while it has no watch. */
const POLL_MS = 1_000;
/** How soon a watched claim asks again. The interval grows with the number of claims of the store. */
const ASK_AGAIN_MS = { min: 10_000, max: 60_000, each: 10 };

/** The steps of a claim and a release, also those that recover from a lost reply. */
export class Claims {
  readonly #clock: Clock;
  readonly #tree: LocksTree;
  readonly #table: ClaimTable;
  readonly #queueMax: number;

  constructor(clock: Clock, tree: LocksTree, table: ClaimTable, queueMax: number) {
    this.#clock = clock;
    this.#tree = tree;
    this.#table = table;
    this.#queueMax = queueMax;
  }

  /** `null`: the claim is not in the queue. */
  async askAgain(claim: Claim, request: ClaimRequest, sent: Instant): Promise<ClaimOutcome | null> {
    const { session, lock } = claim;
    if (claim.isGranted) {
      if (await session.transactions.check(claim.path)) return this.#grant(claim, sent);
    } else {
      if (request.wait && (await claim.isStillBehind())) return await this.#refuse(claim, claim.behind);
      if (await claim.isNext()) return this.#grant(claim, sent);
      const queue = await session.transactions.read(lock);
      // The reply to its create was lost if it has no node. It was not checked then.
      if (queue !== null) return await this.#judge(claim, request, sent, queue, claim.node === null);
    }
    claim.restartIn(session);
    return null;
  }

  /** For a renewal: whether the claim holds, although it may not have asked since it was granted. */
  async isGrantedNow(claim: Claim): Promise<boolean> {
    const { session, lock, id } = claim;
    if (claim.isGranted || claim.fence === null || session.isOver) return claim.isGranted;
    const queue = await session.transactions.read(lock);
    const at = queue?.indexOf(id, session.id) ?? -1;
    if (queue === null || at < 0 || !judge(queue.claims, at).granted) return false;
    this.#setGranted(claim);
    return true;
  }

  /**
   * Makes a new claim. `null`: the lock had no node yet, or the claim's node was removed at once.
   * Try again.
   */
  async enter(
    claim: Claim,
    request: ClaimRequest,
    sent: Instant,
    signal: AbortSignal | undefined,
  ): Promise<ClaimOutcome | null> {
    const { session, lock, id } = claim;
    // A claim that was evicted may enter again in another mode.
    claim.mode = request.mode;
    claim.fenceAbove = request.fenceAbove;
    const entry = {
      lock,
      prefix: nodePrefix(id, session.id, claim.mode),
      data: Buffer.from(request.note),
      acl: this.#tree.acl,
    };
    this.#table.add(claim);
    try {
      const { path, zxid, queue } = await session.transactions.entries.add(entry);
      claim.node = path.slice(lock.length + 1);
      claim.fence = zxid;
      return await this.#judge(claim, request, sent, await queue, true);
    } catch (error) {
      if (isNoNode(error) && claim.node === null) {
        this.#table.remove(claim);
        if (signal?.aborted === true)
          throw new StoreError('The claim was given up before its lock was made', { applied: 'no' });
        await this.#tree.make(session, lock);
        return null;
      }
      throw this.#failedEntry(claim, error);
    }
  }

  /** Resolves to whether this call removed the claim. After a failure, the claim stays in the table. */
  async release(claim: Claim, signal: AbortSignal | undefined): Promise<boolean> {
    const { session, lock, id } = claim;
    claim.isLeaving = true;
    let isRemoved = false;
    try {
      if (!session.isUsable) await session.ready(signal);
      if (claim.node === null) {
        // The reply to its create was lost. Its node is found by the id and the session.
        const queue = await session.transactions.read(lock);
        claim.node = queue?.claims[queue.indexOf(id, session.id)]?.node ?? null;
      }
      if (claim.node !== null) {
        isRemoved = await session.transactions.remove(claim.path);
        this.#tree.clean(session, lock);
      }
    } catch (error) {
      // The node ends with the session.
      if (!session.isOver) throw error;
    }
    claim.isRemoved = isRemoved;
    this.#table.remove(claim);
    return isRemoved;
  }

  /** Removes every node with that id, also nodes of other processes. */
  async evict(session: Session, ref: ClaimRef): Promise<boolean> {
    const lock = this.#tree.lock(ref.name);
    const queue = await session.transactions.read(lock);
    const found = queue?.withId(ref.id) ?? [];
    const removed = await Promise.all(
      found.map(({ node }) => session.transactions.remove(`${lock}/${node}`)),
    );
    return removed.includes(true);
  }

  /** A claim that may be in the queue stays in the table, so that it can be found and released. */
  #failedEntry(claim: Claim, error: unknown): unknown {
    if (!(error instanceof StoreError) || error.applied === 'unknown') return error;
    const isStanding = claim.node !== null && this.#table.has(claim);
    if (!isStanding) this.#table.remove(claim);
    return asUnknownIfStanding(error, isStanding);
  }

  async #judge(
    claim: Claim,
    request: ClaimRequest,
    sent: Instant,
    queue: Queue,
    isNew: boolean,
  ): Promise<ClaimOutcome | null> {
    const { session, lock, id } = claim;
    const at = queue.indexOf(id, session.id);
    const own = queue.claims[at];
    if (own === undefined) {
      claim.restartIn(session);
      return null;
    }
    // Of a claim that was created twice, the first node counts.
    if (claim.node !== own.node) {
      claim.fence = null;
      claim.behind = null;
      claim.claimAhead = null;
    }
    claim.node = own.node;
    claim.position = own.position;
    // The others were created twice, or in an earlier session.
    for (const each of queue.withId(id))
      if (each !== own) session.transactions.remove(`${lock}/${each.node}`).catch(() => {});
    if (isNew) await this.#checkQueue(claim, request, queue, at);
    if (!(await this.#hasFence(claim))) return null;
    const verdict = judge(queue.claims, at);
    if (verdict.granted) return this.#grant(claim, sent);
    if (request.wait) {
      const behind = verdict.behind === null ? null : (queue.claims[verdict.behind] ?? null);
      return await this.#refuse(claim, behind);
    }
    await this.#withdraw(claim);
    return { granted: false, retryAfterMs: null };
  }

  async #checkQueue(claim: Claim, request: ClaimRequest, queue: Queue, at: number): Promise<void> {
    const { name, mode, wait } = request;
    const present = checkCompatible(queue.claims, at);
    const isFull = wait && isOverBound(queue.claims, at, this.#queueMax);
    if (present === null && !isFull) return;
    await this.#withdraw(claim);
    if (present !== null) throw new ModeMismatchError(name, mode, present);
    throw new QueueFullError(name, this.#queueMax);
  }

  /** Reads the fence if the reply to the create did not show it. False: the node is gone. */
  async #hasFence(claim: Claim): Promise<boolean> {
    claim.fence ??= await claim.session.calls.exists(claim.path);
    if (claim.fence === null) {
      claim.restartIn(claim.session);
      return false;
    }
    const refusal = checkFence(claim.fence, claim.fenceAbove, 'The ZooKeeper transaction');
    if (refusal === null) return true;
    await this.#withdraw(claim);
    throw refusal;
  }

  /** Removes a claim that must not stay. After an unknown outcome the claim may still exist. */
  async #withdraw(claim: Claim): Promise<void> {
    claim.isLeaving = true;
    try {
      await claim.session.transactions.remove(claim.path);
    } catch (error) {
      throw new StoreError('A claim could not be withdrawn', { cause: error, applied: 'unknown' });
    }
    this.#table.remove(claim);
  }

  #grant(claim: Claim, sent: Instant): ClaimOutcome {
    const validForMs = claim.session.leftMs(sent);
    if (validForMs <= 0)
      throw new StoreError('The session was not confirmed in time', { applied: 'unknown' });
    this.#setGranted(claim);
    return { granted: true, fence: claim.fence ?? 0n, validForMs };
  }

  #setGranted(claim: Claim): void {
    claim.claimAhead = null;
    claim.grantedAtMs ??= this.#clock.monotonicMs();
    this.#table.watch.end(claim);
  }

  /** Arms the watch, then refuses. `behind`: the node that has to go first; `null`: any of several. */
  async #refuse(claim: Claim, behind: NodeName | null): Promise<ClaimOutcome> {
    claim.behind = behind;
    claim.claimAhead = behind === null ? null : this.#table.atNode(claim.name, behind);
    claim.isAheadGone = false;
    await this.#table.watch.arm(claim, behind?.node ?? null, 0n);
    if (!this.#table.watch.isWatched(claim)) return { granted: false, retryAfterMs: POLL_MS };
    const { min, max, each } = ASK_AGAIN_MS;
    // A random part, so that claims that came together do not ask again together.
    const share = 0.75 + this.#clock.random() / 4;
    return { granted: false, retryAfterMs: Math.min(Math.max(min, this.#table.size * each), max) * share };
  }
}
