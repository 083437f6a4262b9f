import type { Clock } from '../../clock.ts';
import { ModeMismatchError, QueueFullError, StoreError } from '../../errors.ts';
import type { ClaimOutcome, ClaimRef, ClaimRequest } from '../../store/store.ts';
import type { Instant } from '../../store/validity.ts';
import { isUnknown } from '../../util/error-code.ts';
import {
  asUnknownIfStanding,
  checkCompatible,
  checkFence,
  isOverBound,
  judge,
} from '../shared/claim-order.ts';
import { isNoNode } from './calls.ts';
import type { Claim, ClaimTable } from './claim.ts';
import { CREATE } from './client.ts';
import type { LocksTree } from './locks-tree.ts';
import { type NodeName, nodePrefix } from './node-name.ts';
import type { Queue } from './queue.ts';
import type { Session } from './session.ts';

/** How soon a waiting claim asks again while it has no watch. */
const POLL_MS = 1_000;
/** How soon a watched claim asks again. The interval grows with the number of claims of the store. */
const ASK_AGAIN_MS = { min: 10_000, max: 60_000, each: 10 };

/** One call of `claim`. */
export interface Ask {
  readonly request: ClaimRequest;
  readonly signal: AbortSignal | undefined;
  readonly sent: Instant;
}

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
  async askAgain(claim: Claim, ask: Ask): Promise<ClaimOutcome | null> {
    const { session, lock } = claim;
    if (claim.isGranted) {
      if (await session.transactions.check(claim.path)) return this.#grant(claim, ask.sent);
      claim.restartIn(session);
      return null;
    }
    if (ask.request.wait && (await claim.isStillBehind())) return await this.#refuse(claim, claim.behind);
    if (await claim.isNext()) return this.#grant(claim, ask.sent);
    return await this.#judge(claim, ask, await session.transactions.read(lock));
  }

  /** For a renewal: whether the claim holds, although it may not have asked since it was granted. */
  async isGrantedNow(claim: Claim): Promise<boolean> {
    const { session, lock, id } = claim;
    if (claim.isGranted || claim.fence === null || session.isOver) return claim.isGranted;
    const queue = await session.transactions.read(lock);
    const at = queue.indexOf(id, session.id);
    if (at < 0 || !judge(queue.claims, at).granted) return false;
    this.#setGranted(claim);
    return true;
  }

  /**
   * Makes a new claim. `null`: the lock had no node yet, or the claim's node was removed at once.
   * Try again.
   */
  async enter(claim: Claim, ask: Ask): Promise<ClaimOutcome | null> {
    const { session, lock, id } = claim;
    const { request, signal } = ask;
    // A claim that was evicted may enter again in another mode.
    claim.mode = request.mode;
    claim.fenceAbove = request.fenceAbove;
    this.#table.add(claim);
    try {
      const { path, zxid, queue } = await session.transactions.entries.add({
        lock,
        path: `${lock}/${nodePrefix(id, session.id, claim.mode)}`,
        data: Buffer.from(request.note),
        acl: this.#tree.acl,
        mode: CREATE.ephemeralSequential,
      });
      claim.node = path.slice(lock.length + 1);
      claim.fence = zxid;
      return await this.#judge(claim, ask, await queue);
    } catch (error) {
      if (isNoNode(error) && claim.node === null) {
        this.#table.remove(claim);
        if (signal?.aborted === true)
          throw new StoreError('The claim was given up before its lock node was created', { applied: 'no' });
        await this.#tree.make(session, lock);
        return null;
      }
      // A claim that may be in the queue stays in the table, so that it can be found and released.
      const isStanding = (claim.node !== null || isUnknown(error)) && this.#table.has(claim);
      if (!isStanding) this.#table.remove(claim);
      throw asUnknownIfStanding(error, isStanding);
    }
  }

  /**
   * Resolves to whether this call removed the claim. After a failure, the claim stays in the table
   * while its session lives.
   */
  async release(claim: Claim, signal: AbortSignal | undefined): Promise<boolean> {
    const { session, lock, node, path } = claim;
    claim.isLeaving = true;
    claim.waiter = null;
    this.#table.watch.end(claim);
    try {
      if (!session.isUsable) await session.ready(signal);
      // Without a known node, the reply to its create was lost. Its node is found by the id.
      if (node === null) claim.isRemoved = await this.evict(session, claim);
      else claim.isRemoved = await session.transactions.removals.add(path);
      this.#tree.clean(session, lock);
    } catch (error) {
      // The node ends with the session, unless this call has removed it before.
      if (session.isOver) this.#table.remove(claim);
      if (!session.isOver || isUnknown(error)) throw error;
    }
    this.#table.remove(claim);
    return claim.isRemoved;
  }

  /** Removes every node with that id, also nodes of other processes. */
  async evict(session: Session, ref: ClaimRef): Promise<boolean> {
    const lock = this.#tree.lock(ref.name);
    const queue = await session.transactions.read(lock);
    const removals = queue
      .withId(ref.id)
      .map(({ node }) => session.transactions.removals.add(`${lock}/${node}`));
    return (await Promise.all(removals)).includes(true);
  }

  async #judge(claim: Claim, { request, sent }: Ask, queue: Queue): Promise<ClaimOutcome | null> {
    const { session, lock, id } = claim;
    const at = queue.indexOf(id, session.id);
    const own = queue.claims[at];
    if (own === undefined) {
      claim.restartIn(session);
      return null;
    }
    // Of a claim that was created twice, the first node counts.
    if (claim.node !== own.node) claim.restartIn(session);
    claim.node = own.node;
    claim.position = own.position;
    // The others were created twice, or in an earlier session.
    for (const each of queue.withId(id))
      if (each !== own) session.transactions.removals.add(`${lock}/${each.node}`).catch(() => {});
    if (!claim.isChecked) await this.#checkQueue(claim, request, queue, at);
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
    claim.isChecked = present === null && !isFull;
    if (claim.isChecked) return;
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
      await claim.session.transactions.removals.add(claim.path);
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
    const { name } = claim;
    claim.behind = behind;
    claim.claimAhead = behind === null ? null : (this.#table.get({ name, id: behind.id }) ?? null);
    claim.isAheadGone = false;
    await this.#table.watch.arm(claim, behind?.node ?? null, 0n);
    if (!this.#table.watch.isWatched(claim)) return { granted: false, retryAfterMs: POLL_MS };
    const { min, max, each } = ASK_AGAIN_MS;
    // A random part, so that claims that came together do not ask again together.
    const share = 0.75 + this.#clock.random() / 4;
    return { granted: false, retryAfterMs: Math.min(Math.max(min, this.#table.size * each), max) * share };
  }
}
