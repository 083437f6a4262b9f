import { StoreError } from '../../errors.ts';
import type { ClaimRef } from '../../store/store.ts';
import type { Claim } from './claim.ts';
import type { ClaimTable } from './claim-table.ts';
import type { Connection } from './connection.ts';
import type { LocksTree } from './locks-tree.ts';
import type { Queue } from './queue.ts';
import type { Session } from './session.ts';

/** Finds claims, and removes them. */
export class Removal {
  readonly #connection: Connection;
  readonly #tree: LocksTree;
  readonly #table: ClaimTable;

  constructor(connection: Connection, tree: LocksTree, table: ClaimTable) {
    this.#connection = connection;
    this.#tree = tree;
    this.#table = table;
  }

  /** Resolves to whether this call removed the claim. After a failure, `finish` tries again later. */
  release(ref: ClaimRef, signal: AbortSignal | undefined): Promise<boolean> {
    const claim = this.#table.get(ref);
    if (claim === undefined) return this.removeFound(ref, signal);
    claim.isLeaving = true;
    // A release that waits for a connection and the removal by `finish` share one request. Of two
    // requests the second would find nothing, and the caller's release would resolve to false.
    claim.removal ??= this.#begin(claim, signal).finally(() => {
      claim.removal = null;
    });
    return claim.removal;
  }

  #begin(claim: Claim, signal: AbortSignal | undefined): Promise<boolean> {
    const canSend = claim.node !== null && claim.session.isUsable && signal?.aborted !== true;
    return canSend ? this.#remove(claim) : this.#removeLater(claim, signal);
  }

  async #removeLater(claim: Claim, signal: AbortSignal | undefined): Promise<boolean> {
    try {
      await claim.session.ready(signal);
      if (claim.node !== null || (await this.find(claim))) return await this.#remove(claim);
    } catch (error) {
      if (!claim.session.isOver) throw error;
    }
    // The node ended with the session, or was never created.
    this.#table.remove(claim);
    return false;
  }

  #remove(claim: Claim): Promise<boolean> {
    const { session, lock, path } = claim;
    return session.transactions.remove(path).then((isRemoved) => {
      session.emptyLocks.left(claim);
      this.#table.remove(claim);
      this.#tree.clean(session, lock);
      return isRemoved;
    });
  }

  /** Removes every node with that id, also nodes of other processes. */
  async removeFound(ref: ClaimRef, signal: AbortSignal | undefined): Promise<boolean> {
    const session = await this.#connection.ready(signal);
    const lock = this.#tree.lock(ref.name);
    const queue = await this.read(session, lock);
    const found = queue?.claims.filter(({ id }) => id === ref.id) ?? [];
    const removed = await Promise.all(
      found.map(({ node }) => session.transactions.remove(`${lock}/${node}`)),
    );
    return removed.includes(true);
  }

  /**
   * Looks for the node of a claim whose reply was lost. The read follows a check that goes through
   * the leader, so a member that lags behind cannot hide the node.
   */
  async find(claim: Claim): Promise<boolean> {
    const queue = await this.read(claim.session, claim.lock);
    const own = queue?.claims[queue.indexOf(claim.id, claim.session.id)];
    if (own === undefined) return false;
    claim.node = own.node;
    claim.position = own.position;
    return true;
  }

  /** Reads the queue, not older than this call; `null` when the lock has no node. */
  async read(session: Session, lock: string): Promise<Queue | null> {
    const { isThere, queue } = await session.transactions.check(lock, lock);
    return isThere ? await queue : null;
  }

  /** Removes a claim that must not stay. After an unknown outcome the claim may still exist. */
  async withdraw(claim: Claim): Promise<void> {
    claim.isLeaving = true;
    try {
      await claim.session.transactions.remove(claim.path);
    } catch (error) {
      throw new StoreError('A claim could not be withdrawn', { cause: error, applied: 'unknown' });
    }
    this.#table.remove(claim);
  }

  /** Removes nodes of the claim from an earlier session, and nodes that were created twice. */
  removeDuplicates(claim: Claim, queue: Queue): void {
    const { session, lock, id, node } = claim;
    if (!queue.hasDuplicates(id)) return;
    for (const each of queue.claims) {
      if (each.id === id && each.node !== node)
        session.transactions.remove(`${lock}/${each.node}`).catch(() => {});
    }
  }

  /** Removes the claims that were given up while no member answered. */
  async finish(session: Session): Promise<void> {
    const left = [...this.#table].filter((claim) => claim.isLeaving && claim.session === session);
    await Promise.allSettled(left.map((claim) => this.release(claim, undefined)));
  }
}
