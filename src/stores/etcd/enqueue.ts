import type { Clock } from '../../clock.ts';
import { ModeMismatchError, QueueFullError, StoreError } from '../../errors.ts';
import type { ClaimRequest, Mode } from '../../store/store.ts';
import { checkCompatible, checkFence, isOverBound } from '../shared/claim-order.ts';
import { isLeaseGone } from './calls.ts';
import type { Claim } from './claim.ts';
import type { RangeReply } from './client.ts';
import { enqueueTxn, takeTxn, tryTxn } from './enqueue-txn.ts';
import { type Lease, unknownLease } from './lease.ts';
import { type Ahead, hasIncompatible, isLong, LONG, lookAhead, parseAhead, type Verdict } from './queue.ts';
import type { Look, QueueReader } from './queue-reader.ts';
import type { Transactions, WriteResult } from './transactions.ts';

/**
 * `existed`: the key existed already, because the answer to an earlier request was lost. The
 * claim's `revision` is known now, unless the key was deleted meanwhile. `refused`: the claim is
 * not in the queue.
 */
export type Enqueued =
  | { readonly kind: 'entered'; readonly verdict: Verdict; readonly revision: bigint; readonly term: number }
  | { readonly kind: 'existed' }
  | { readonly kind: 'refused' };

/** Puts new claims into queues. */
export class Enqueue {
  readonly #transactions: Transactions;
  readonly #reader: QueueReader;
  readonly #queueMax: number;
  readonly #clock: Clock;

  constructor(transactions: Transactions, reader: QueueReader, queueMax: number, clock: Clock) {
    this.#clock = clock;
    this.#transactions = transactions;
    this.#reader = reader;
    this.#queueMax = queueMax;
  }

  /** One transaction if the lock is free. After an unknown outcome the key may exist. */
  async enter(claim: Claim, request: ClaimRequest, signal: AbortSignal | undefined): Promise<Enqueued> {
    const { mode, note, wait } = request;
    if (!wait && mode.kind !== 'permits') return await this.#try(claim, request, signal);
    const write = { txn: enqueueTxn(claim, note), conflicts: conflictsOf(claim), signal };
    const result = await this.#transactions.writes.add(write);
    claim.mayStand = true;
    if (mode.kind !== 'permits' && result.succeeded)
      return await this.#checkFence(claim, request, result, { granted: true });
    const [, own, total] = result.ranges;
    const isOwnLease = this.#see(claim, own);
    if (!isOwnLease || claim.revision !== result.revision) return { kind: 'existed' };
    return await this.#check(claim, request, result, Number(total?.count ?? 0));
  }

  async #try(claim: Claim, request: ClaimRequest, signal: AbortSignal | undefined): Promise<Enqueued> {
    const { lock, mode, key } = claim;
    const write = { txn: tryTxn(claim, request.note), conflicts: conflictsOf(claim), signal };
    const result = await this.#transactions.writes.add(write);
    claim.mayStand = result.succeeded;
    if (result.succeeded) return await this.#checkFence(claim, request, result, { granted: true });
    this.#see(claim, result.ranges[1]);
    claim.mayStand = claim.revision !== null;
    if (claim.mayStand) return { kind: 'existed' };
    const ahead = parseAhead(lock, mode, result.ranges[0], key);
    // The keys that were read do not show whether the lock is free. The claim enters the queue, and
    // leaves it again if the lock is held.
    if (ahead.isUnclear) return await this.#tryInQueue(claim, request, signal);
    const present = await this.#incompatible(claim, ahead);
    if (present !== null) throw new ModeMismatchError(request.name, mode, present);
    return { kind: 'refused' };
  }

  /** Reads the claim's own key. False: an earlier request has created it, on another lease. */
  #see(claim: Claim, own: RangeReply | undefined): boolean {
    const kv = own?.kvs[0];
    claim.revision = kv === undefined ? null : BigInt(kv.create_revision);
    claim.modRevision = BigInt(kv?.mod_revision ?? 0);
    if (kv === undefined || kv.lease === claim.lease.id) return true;
    claim.moveTo(unknownLease(this.#clock));
    return false;
  }

  async #tryInQueue(claim: Claim, request: ClaimRequest, signal: AbortSignal | undefined): Promise<Enqueued> {
    const entered = await this.enter(claim, { ...request, wait: true }, signal);
    if (entered.kind !== 'entered' || entered.verdict.granted) return entered;
    await this.withdraw(claim);
    return { kind: 'refused' };
  }

  /** The claim is in the queue. Decides whether it may stay there, and whether it is granted. */
  async #check(claim: Claim, request: ClaimRequest, result: WriteResult, total: number): Promise<Enqueued> {
    const ahead = parseAhead(claim.lock, request.mode, result.ranges[0], claim.key);
    const present = await this.#incompatible(claim, ahead);
    if (present !== null) {
      await this.withdraw(claim);
      throw new ModeMismatchError(request.name, request.mode, present);
    }
    const verdict = await this.#reader.judge(claim, result.revision, ahead);
    if (!verdict.granted && !request.wait) {
      await this.withdraw(claim);
      return { kind: 'refused' };
    }
    if (!verdict.granted && (await this.#isQueueFull(claim, total))) {
      await this.withdraw(claim);
      throw new QueueFullError(request.name, this.#queueMax);
    }
    return await this.#checkFence(claim, request, result, verdict);
  }

  /**
   * The mode that the claim is incompatible with; `null` if it is compatible. The first claim in
   * the queue decides. An incompatible claim right ahead may be one that is about to be refused
   * itself, so the whole queue is read in that case.
   */
  async #incompatible({ lock, mode, key, revision }: Claim, ahead: Ahead): Promise<Mode | null> {
    if (!hasIncompatible(ahead.claims, mode)) return null;
    const whole = mode.kind === 'permits' ? ahead.claims : await this.#reader.whole(lock);
    const queue = whole.filter((each) => !each.key.equals(key) && each.revision < (revision ?? FOREVER));
    return checkCompatible([...queue, { mode }], queue.length);
  }

  /** Checks whether an exclusive claim is granted. If so, moves the claim to this lease. */
  async take(claim: Claim, revision: bigint, lease: Lease): Promise<Look> {
    // The lease counts as used from now on, so that it is not treated as empty meanwhile.
    lease.claims.add(claim.keyText);
    try {
      const txn = takeTxn(claim, revision, lease.id);
      const taken = await this.#transactions.writes.add({ txn, conflicts: [claim.keyText] });
      if (taken.succeeded) {
        claim.moveTo(lease);
        claim.modRevision = taken.revision;
        return { isThere: true, verdict: { granted: true }, revision: taken.revision, term: taken.term };
      }
      lease.claims.delete(claim.keyText);
      return await this.#reader.judgeRead(claim, revision, taken);
    } catch (error) {
      // Until an answer arrives, the key may be attached to either lease. `LeaseExtension` finds
      // out which.
      if (!isLeaseGone(error)) throw error;
      lease.end();
      return await this.#reader.look(claim, revision);
    }
  }

  /** Deletes a claim that must not stay. After an unknown outcome the claim may still exist. */
  async withdraw(claim: Claim): Promise<void> {
    try {
      await this.#reader.remove(claim.key, claim.revision);
    } catch (error) {
      throw new StoreError('A claim could not be withdrawn', { cause: error, applied: 'unknown' });
    }
    claim.mayStand = false;
  }

  async #isQueueFull(claim: Claim, total: number): Promise<boolean> {
    // At least one claim holds, and this one has just entered. Most queues are so far below their
    // bound that they need not be read.
    if (total - 2 < this.#queueMax) return false;
    const whole = await this.#reader.whole(claim.lock);
    const queue = whole.filter(({ revision }) => revision <= (claim.revision ?? 0n));
    return isOverBound(queue, queue.length - 1, this.#queueMax);
  }

  async #checkFence(
    claim: Claim,
    request: ClaimRequest,
    { revision, term }: WriteResult,
    verdict: Verdict,
  ): Promise<Enqueued> {
    claim.revision = revision;
    claim.modRevision = revision;
    const refusal = checkFence(revision, request.fenceAbove, 'The etcd revision');
    if (refusal === null) return { kind: 'entered', verdict, revision, term };
    await this.withdraw(claim);
    throw refusal;
  }
}

/** Greater than every revision. */
const FOREVER = 2n ** 63n;

/** Keeps two new claims of one lock out of one transaction: they would have no order. */
function conflictsOf({ keyText, lock, mode }: Claim): string[] {
  const own = [keyText, lock.from.toString('latin1')];
  return isLong(lookAhead(lock, mode, null)) ? [...own, LONG] : own;
}
