import { StoreError } from '../../errors.ts';
import type { ClaimRef } from '../../store/store.ts';
import type { Claim } from './claim.ts';
import type { Line } from './line.ts';
import type { Parts } from './parts.ts';
import type { Session } from './session.ts';

/** Finds claims, and removes them. */
export class Leaving {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Whether this call removed it. Rejects when nobody knows; then it is tried again after the next reconnect, whoever asks. */
  release(ref: ClaimRef, signal: AbortSignal | undefined): Promise<boolean> {
    const claim = this.#parts.claims.get(ref);
    if (claim === undefined) return this.removeFound(ref, signal);
    claim.isLeaving = true;
    // One that waits for the next connection and what `finish` does then are one: the second of two would find nothing, and say so to whoever gave it up.
    claim.removal ??= this.#begin(claim, signal).finally(() => {
      claim.removal = null;
    });
    return claim.removal;
  }

  #begin(claim: Claim, signal: AbortSignal | undefined): Promise<boolean> {
    const isSent = claim.node !== null && claim.session.isUsable && signal?.aborted !== true;
    return isSent ? this.#remove(claim) : this.#removeLater(claim, signal);
  }

  async #removeLater(claim: Claim, signal: AbortSignal | undefined): Promise<boolean> {
    if (!claim.session.isOver) {
      await claim.session.ready(signal);
      if (claim.node !== null || (await this.find(claim))) return await this.#remove(claim);
    }
    // Its node went with the session, or has never been made.
    this.forget(claim);
    return false;
  }

  #remove(claim: Claim): Promise<boolean> {
    const { session, lock, path } = claim;
    return session.writes.remove(path).then((isRemoved) => {
      session.vacancies.left(claim);
      this.forget(claim);
      this.#parts.tree.clean(session, lock);
      return isRemoved;
    });
  }

  /** Removes whatever has that id, whoever made it. */
  async removeFound(ref: ClaimRef, signal: AbortSignal | undefined): Promise<boolean> {
    const session = await this.#parts.sessions.ready(signal);
    const lock = this.#parts.tree.lock(ref.name);
    const line = await this.look(session, lock);
    const found = line?.claims.filter(({ id }) => id === ref.id) ?? [];
    const removed = await Promise.all(found.map(({ node }) => session.writes.remove(`${lock}/${node}`)));
    return removed.includes(true);
  }

  /** Looks for the node of a claim whose answer was lost. The check behind which the line is read goes through the leader, so a member that lags behind cannot hide it. */
  async find(claim: Claim): Promise<boolean> {
    const line = await this.look(claim.session, claim.lock);
    const own = line?.claims[line.placeOf(claim.id, claim.session.id)];
    if (own === undefined) return false;
    claim.node = own.node;
    claim.place = own.place;
    return true;
  }

  /** The line as it is now at the latest; `null` when the lock has no node. */
  async look(session: Session, lock: string): Promise<Line | null> {
    const { isThere, line } = await session.writes.check(lock, lock);
    return isThere ? await line : null;
  }

  /** Takes back a claim that shall not stay. Rejects with an unknown outcome when it may have stayed. */
  async withdraw(claim: Claim): Promise<void> {
    claim.isLeaving = true;
    try {
      await claim.session.writes.remove(claim.path);
    } catch (error) {
      throw new StoreError('A claim could not be taken back', { cause: error, applied: 'unknown' });
    }
    this.forget(claim);
  }

  /** What has our id and is not the claim: of an earlier session, or made by a client that repeats what it got no answer to. */
  removeGhosts(claim: Claim, line: Line): void {
    const { session, lock, id, node } = claim;
    // Claims are many and ghosts rare: what stands in line once needs no look at the rest.
    if (!line.hasTwice(id)) return;
    for (const each of line.claims) {
      if (each.id === id && each.node !== node) session.writes.remove(`${lock}/${each.node}`).catch(() => {});
    }
  }

  /** Removes what was given up while nobody answered. A session outlives every time to live, so nothing else would. */
  async finish(session: Session): Promise<void> {
    const left = [...this.#parts.claims].filter((claim) => claim.isLeaving && claim.session === session);
    await Promise.allSettled(left.map((claim) => this.release(claim, undefined)));
  }

  forget(claim: Claim): void {
    this.#parts.claims.remove(claim);
    this.#parts.waiters.end(claim);
  }
}
