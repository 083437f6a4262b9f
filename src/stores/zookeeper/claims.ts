import type { Clock } from '../../clock.ts';
import { ModeMismatchError, QueueFullError, StoreError } from '../../errors.ts';
import type { ClaimOutcome, ClaimRequest } from '../../store/store.ts';
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
import { nodePrefix } from './node-name.ts';
import { Queue } from './queue.ts';
import { QueueShortcuts } from './queue-shortcuts.ts';
import type { Removal } from './removal.ts';
import type { Count } from './transactions.ts';

/** How soon a waiting claim asks again while it has no watch. */
const POLL_MS = 1_000;
/** How soon a watched claim asks again. The interval grows with the number of claims of the store. */
const ASK_AGAIN_MS = { min: 10_000, max: 60_000, each: 10 };

/** The steps of `claim`: entering the queue, asking again, and recovering from a lost reply. */
export class Claims {
  readonly #clock: Clock;
  readonly #tree: LocksTree;
  readonly #table: ClaimTable;
  readonly #removal: Removal;
  readonly #queueMax: number;
  readonly #shortcuts: QueueShortcuts;

  constructor(clock: Clock, tree: LocksTree, table: ClaimTable, removal: Removal, queueMax: number) {
    this.#clock = clock;
    this.#tree = tree;
    this.#table = table;
    this.#removal = removal;
    this.#queueMax = queueMax;
    this.#shortcuts = new QueueShortcuts(table, queueMax);
  }

  /** `null`: the claim is not in the queue. */
  async askAgain(claim: Claim, request: ClaimRequest, sent: Instant): Promise<ClaimOutcome | null> {
    // The reply to its create was lost. Its node is found by the id and the session.
    if (claim.node === null && !(await this.#removal.find(claim))) return null;
    const { transactions } = claim.session;
    if (claim.isGranted) {
      const { isThere } = await transactions.check(claim.path, null);
      if (isThere) return this.#grant(claim, sent, claim.isFirst);
    } else {
      if (request.wait && (await this.#shortcuts.isStillBehind(claim)))
        return await this.#refuse(claim, claim.behind);
      // Ahead of a reader there may be other readers, which may stay longer than this one.
      if (await this.#shortcuts.isNext(claim))
        return this.#grant(claim, sent, claim.mode.kind === 'exclusive');
      // The check and the read are sent together and answered in order, so the queue is not older
      // than the check.
      const { isThere, queue } = await transactions.check(claim.path, claim.lock);
      if (isThere && queue !== null) return await this.#judge(claim, request, sent, await queue, false);
    }
    claim.restartIn(claim.session);
    return null;
  }

  /** For a renewal: whether the claim holds, although it may not have asked since it was granted. */
  async isGrantedNow(claim: Claim): Promise<boolean> {
    const { session, lock, id } = claim;
    if (claim.isGranted || claim.fence === null || session.isOver) return claim.isGranted;
    const queue = await this.#removal.read(session, lock);
    const at = queue?.indexOf(id, session.id) ?? -1;
    if (queue === null || at < 0 || !judge(queue.claims, at).granted) return false;
    this.#setGranted(claim, at === 0);
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
    const prefix = nodePrefix(id, session.id, claim.mode);
    this.#table.add(claim);
    const { emptyLocks, connectionCount } = session;
    const empty = emptyLocks.take(lock);
    claim.lockNode = emptyLocks.nodeOf(lock);
    const isLikelyAlone = empty?.isLikely === true;
    try {
      const data = Buffer.from(request.note);
      const entered = await session.transactions.entries.add({
        lock,
        prefix,
        data,
        acl: this.#tree.acl,
        isLikelyAlone,
      });
      const node = entered.path.slice(lock.length + 1);
      claim.node = node;
      claim.position = Number(node.slice(prefix.length));
      claim.fence = entered.zxid;
      if (empty !== null && emptyLocks.isAlone(empty, claim.position)) {
        if (!(await this.#hasFence(claim))) return null;
        return this.#grant(claim, sent, true);
      }
      const counted = await (entered.counted ?? session.transactions.count(lock));
      // The queue has not changed since the create, so the watched lock node is the one that gave
      // the queue position.
      if (counted.zxid === entered.zxid) claim.lockNode ??= counted.lockNode;
      // After a lost connection, a client that repeats requests may have created the claim twice.
      const isOnce = session.connectionCount === connectionCount;
      const ahead = isOnce ? this.#shortcuts.ownClaimAhead(claim, request, counted) : null;
      if (ahead !== null) return await this.#refuse(claim, ahead.node);
      return await this.#judge(claim, request, sent, await this.#queueOf(claim, counted), true);
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

  /** A claim that is alone in the queue knows that from the count. */
  async #queueOf({ session, lock, node, fence }: Claim, { count, zxid }: Count): Promise<Queue> {
    if (count === 1 && zxid === fence && node !== null) return new Queue([node]);
    return await session.transactions.read(lock);
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
    const { session, id } = claim;
    const at = queue.indexOf(id, session.id);
    const own = queue.claims[at];
    if (own === undefined) {
      claim.restartIn(session);
      return null;
    }
    // Of a claim that was created twice, the first node counts.
    if (claim.node !== null && claim.node !== own.node) claim.fence = null;
    claim.node = own.node;
    claim.position = own.position;
    this.#removal.removeDuplicates(claim, queue);
    if (isNew) await this.#checkQueue(claim, request, queue, at);
    if (!(await this.#hasFence(claim))) return null;
    const verdict = judge(queue.claims, at);
    if (verdict.granted) return this.#grant(claim, sent, at === 0);
    if (request.wait) {
      const behind = verdict.behind === null ? null : (queue.claims[verdict.behind]?.node ?? null);
      return await this.#refuse(claim, behind);
    }
    await this.#removal.withdraw(claim);
    return { granted: false, retryAfterMs: null };
  }

  async #checkQueue(claim: Claim, request: ClaimRequest, queue: Queue, at: number): Promise<void> {
    const { name, mode, wait } = request;
    const present = checkCompatible(queue.claims, at);
    const isFull = wait && isOverBound(queue.claims, at, this.#queueMax);
    if (present === null && !isFull) return;
    await this.#removal.withdraw(claim);
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
    await this.#removal.withdraw(claim);
    throw refusal;
  }

  /** `isFirst`: nothing is ahead of the claim in its queue. */
  #grant(claim: Claim, sent: Instant, isFirst: boolean): ClaimOutcome {
    const validForMs = claim.session.leftMs(sent);
    if (validForMs <= 0)
      throw new StoreError('The session was not confirmed in time', { applied: 'unknown' });
    claim.claimAhead = null;
    this.#setGranted(claim, isFirst);
    return { granted: true, fence: claim.fence ?? 0n, validForMs };
  }

  #setGranted(claim: Claim, isFirst: boolean): void {
    if (!claim.isGranted) claim.grantedAtMs = this.#clock.monotonicMs();
    claim.isGranted = true;
    claim.isFirst = isFirst;
    this.#table.watch.end(claim);
  }

  /** Arms the watch, then refuses. `behind`: the node that has to go first; `null`: any of several. */
  async #refuse(claim: Claim, behind: string | null): Promise<ClaimOutcome> {
    claim.behind = behind;
    claim.claimAhead = behind === null ? null : this.#table.ahead(claim);
    claim.isAheadGone = false;
    this.#table.addPosition(claim);
    await this.#table.watch.arm(claim, behind, 0n);
    if (!this.#table.watch.isWatched(claim)) return { granted: false, retryAfterMs: POLL_MS };
    const { min, max, each } = ASK_AGAIN_MS;
    // A random part, so that claims that came together do not ask again together.
    const share = 0.75 + this.#clock.random() / 4;
    return { granted: false, retryAfterMs: Math.min(Math.max(min, this.#table.size * each), max) * share };
  }
}
