import { ModeMismatchError, QueueFullError, StoreError } from '../../errors.ts';
import { agree } from '../../store/grant-rule.ts';
import type { ClaimRequest, Mode } from '../../store/store.ts';
import { checkCompatible, checkFence, isOverBound } from '../shared/claim-order.ts';
import { isLeaseGone } from './calls.ts';
import type { Claim } from './claim.ts';
import type { RangeReply } from './client.ts';
import { enqueueTxn, takeTxn } from './enqueue-txn.ts';
import type { LockKeys } from './key.ts';
import { type Lease, unknownLease } from './lease.ts';
import {
  type Ahead,
  judgeBehind,
  lookRanges,
  parseAhead,
  parseEntry,
  type QueueEntry,
  type Verdict,
} from './queue.ts';
import type { ReadResult, Transactions, Write } from './transactions.ts';

/** What one read shows about a claim and the claims ahead of it, all at one revision. */
export interface Look {
  readonly verdict: Verdict;
  readonly revision: bigint;
  readonly term: number;
}

/**
 * `existed`: the key existed already, because the answer to an earlier request was lost. `refused`:
 * the claim is not in the queue. Otherwise the claim has entered the queue, at `revision`.
 */
export type Enqueued = 'existed' | 'refused' | Look;

/** Reads queues, puts claims into them and removes them. */
export class Queues {
  readonly #transactions: Transactions;
  readonly #queueMax: number;

  constructor(transactions: Transactions, queueMax: number) {
    this.#transactions = transactions;
    this.#queueMax = queueMax;
  }

  /**
   * Puts a new claim into the queue, with one transaction if the lock is free. A claim that does not
   * wait only reads if it is not. After an unknown outcome the key may exist. Otherwise it exists
   * if the claim has a revision.
   */
  async enter(
    claim: Claim,
    request: ClaimRequest,
    signal: AbortSignal | undefined,
    enters = request.wait || request.mode.kind === 'permits',
  ): Promise<Enqueued> {
    const { lock, mode, key } = claim;
    const txn = enqueueTxn(claim, request.note, enters);
    const result = await this.#transactions.writes.add({ txn, conflict: lock.from, signal });
    if (mode.kind !== 'permits' && result.succeeded) {
      claim.revision = result.revision;
      claim.modRevision = result.revision;
      return await this.#checkFence(claim, request, { ...result, verdict: { granted: true } });
    }
    const [reply, own, total] = result.ranges;
    const isOwnLease = this.#see(claim, own);
    const isNew = enters && isOwnLease && claim.revision === result.revision;
    if (enters ? !isNew : claim.revision !== null) return 'existed';
    const ahead = parseAhead(lock, mode, reply, key);
    // The keys that were read do not show whether the lock is free. The claim enters the queue, and
    // leaves it again if the lock is held.
    if (!enters && ahead.isPartial) return await this.enter(claim, request, signal, true);
    const present = await this.#incompatible(claim, ahead);
    if (present !== null)
      return await this.#refuse(claim, new ModeMismatchError(request.name, mode, present));
    if (!enters) return 'refused';
    const verdict = await this.#judge(claim, result.revision, ahead);
    if (!verdict.granted && !request.wait) return await this.#refuse(claim);
    if (!verdict.granted && (await this.#isQueueFull(claim, Number(total?.count ?? 0))))
      return await this.#refuse(claim, new QueueFullError(request.name, this.#queueMax));
    return await this.#checkFence(claim, request, { ...result, verdict });
  }

  /** Reads the claim's own key. False: an earlier request has created it, on another lease. */
  #see(claim: Claim, own: RangeReply | undefined): boolean {
    const kv = own?.kvs[0];
    claim.revision = kv === undefined ? null : BigInt(kv.create_revision);
    claim.modRevision = BigInt(kv?.mod_revision ?? 0);
    if (kv === undefined || kv.lease === claim.lease.id) return true;
    claim.moveTo(unknownLease());
    return false;
  }

  /**
   * The mode that the claim is incompatible with; `null` if it is compatible. The first claim in
   * the queue decides. An incompatible claim right ahead may be one that is about to be refused
   * itself, so the whole queue is read in that case.
   */
  async #incompatible({ lock, mode, key, revision }: Claim, { claims }: Ahead): Promise<Mode | null> {
    if (claims.every((each) => agree(each.mode, mode))) return null;
    const whole = mode.kind === 'permits' ? claims : await this.whole(lock);
    const queue = whole.filter(
      (each) => !each.key.equals(key) && (revision === null || each.revision < revision),
    );
    return checkCompatible([...queue, { mode }], queue.length);
  }

  async #isQueueFull({ lock, revision }: Claim, total: number): Promise<boolean> {
    // At least one claim holds, and this one has just entered. Most queues are so far below their
    // bound that they need not be read.
    if (total - 2 < this.#queueMax) return false;
    const queue = (await this.whole(lock)).filter((each) => each.revision <= (revision ?? 0n));
    return isOverBound(queue, queue.length - 1, this.#queueMax);
  }

  async #checkFence(
    claim: Claim,
    { fenceAbove }: ClaimRequest,
    { verdict, revision, term }: Look,
  ): Promise<Enqueued> {
    const tooLow = checkFence(revision, fenceAbove, 'The etcd revision');
    return tooLow === null ? { verdict, revision, term } : await this.#refuse(claim, tooLow);
  }

  async #refuse(claim: Claim, error?: Error): Promise<'refused'> {
    if (claim.revision !== null) await this.withdraw(claim);
    if (error !== undefined) throw error;
    return 'refused';
  }

  /** Deletes a claim that must not stay. After an unknown outcome the claim may still exist. */
  async withdraw(claim: Claim): Promise<void> {
    try {
      await this.#transactions.writes.add(removal(claim.key, claim.revision));
    } catch (error) {
      throw new StoreError('A claim could not be withdrawn', { cause: error, applied: 'unknown' });
    }
    claim.revision = null;
  }

  /** Checks whether an exclusive claim is granted. If so, moves the claim to this lease. */
  async take(claim: Claim, revision: bigint, lease: Lease): Promise<Look | null> {
    // The lease counts as used from now on, so that it is not treated as empty meanwhile.
    lease.claims.add(claim.keyText);
    try {
      const txn = takeTxn(claim, revision, lease.id);
      const taken = await this.#transactions.writes.add({ txn, conflict: claim.key });
      if (taken.succeeded) {
        claim.moveTo(lease);
        claim.modRevision = taken.revision;
        return { verdict: { granted: true }, revision: taken.revision, term: taken.term };
      }
      lease.claims.delete(claim.keyText);
      return await this.#judgeRead(claim, revision, taken);
    } catch (error) {
      // Until an answer arrives, the key may be attached to either lease. `LeaseExtension` finds
      // out which.
      if (!isLeaseGone(error)) throw error;
      lease.end();
      return await this.look(claim, revision);
    }
  }

  /** Reads whether the claim is granted; `null` when it does not exist. */
  async look(claim: Claim, revision: bigint): Promise<Look | null> {
    return await this.#judgeRead(claim, revision, await this.#transactions.read(lookRanges(claim, revision)));
  }

  /** The same, from the answer to `lookRanges`. */
  async #judgeRead(claim: Claim, revision: bigint, read: ReadResult): Promise<Look | null> {
    const [self, ahead] = read.ranges;
    const kv = self?.kvs[0];
    if (kv === undefined || BigInt(kv.create_revision) !== revision) return null;
    claim.modRevision = BigInt(kv.mod_revision);
    const parsed = parseAhead(claim.lock, claim.mode, ahead, claim.key);
    const verdict = await this.#judge(claim, revision, parsed);
    return { verdict, revision: read.revision, term: read.term };
  }

  /** Applies the grant rule. Reads the whole queue if the claims read so far do not decide. */
  async #judge({ lock, mode }: Claim, revision: bigint, { claims, isPartial }: Ahead): Promise<Verdict> {
    const verdict = judgeBehind(claims, mode);
    if (!verdict.granted || !isPartial) return verdict;
    const whole = await this.whole(lock);
    return judgeBehind(
      whole.filter((entry) => entry.revision < revision),
      mode,
    );
  }

  /**
   * Reads the whole queue, in order. No claim enters ahead of one that was in the queue before, so
   * all that is ahead of such a claim is read.
   */
  async whole(lock: LockKeys, keysOnly = true): Promise<(QueueEntry & { readonly note: string })[]> {
    const queue: (QueueEntry & { note: string })[] = [];
    for await (const kv of this.#transactions.keys(lock.from, lock.end, keysOnly)) {
      const entry = parseEntry(lock, kv);
      if (entry !== null) queue.push({ ...entry, note: kv.value.toString() });
    }
    return queue.sort((a, b) => Number(a.revision - b.revision));
  }

  /** Finds a claim by its id, and whether it is granted. */
  async find(lock: LockKeys, id: string): Promise<(QueueEntry & { readonly isGranted: boolean }) | null> {
    const queue = await this.whole(lock);
    const at = queue.findIndex((each) => each.id === id);
    const found = queue[at];
    if (found === undefined) return null;
    return { ...found, isGranted: judgeBehind(queue.slice(0, at), found.mode).granted };
  }

  /**
   * Deletes a key if it was created at that revision; `null`: at any revision. Resolves to whether
   * this call has deleted it.
   */
  async remove(key: Buffer, revision: bigint | null): Promise<boolean> {
    const { succeeded, attempts } = await this.#transactions.writes.add(removal(key, revision));
    // The client has sent the deletion more than once, and an earlier attempt may have deleted the
    // key.
    if (!succeeded && attempts !== 1)
      throw new StoreError('The answer to a release was lost', { applied: 'unknown' });
    return succeeded;
  }

  /** Wakes the waiters of the lock. The key ends with the lease. */
  async announceNote({ note: key }: LockKeys, lease: Lease): Promise<void> {
    const put = { request_put: { key, lease: lease.id, value: Buffer.alloc(0) } };
    await this.#transactions.writes.add({ txn: { compare: [], success: [put], failure: [] }, conflict: key });
  }
}

function removal(key: Buffer, revision: bigint | null): Write {
  const result = revision === null ? 'Greater' : 'Equal';
  const compare = { target: 'Create', result, key, create_revision: String(revision ?? 0) } as const;
  const txn = { compare: [compare], success: [{ request_delete_range: { key } }], failure: [] };
  return { txn, conflict: key };
}
