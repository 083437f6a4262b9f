import { StoreError } from '../../errors.ts';
import type { RenewChange } from '../../store/store.ts';
import { isUnknown } from '../../util/error-code.ts';
import { isFull, isLeaseGone } from './calls.ts';
import type { Claim } from './claim.ts';
import { isUnmoved } from './enqueue-txn.ts';
import type { Lease } from './lease.ts';
import { attemptMs, holdTime, type LeasePool, type LeaseUse, leaseTime } from './lease-pool.ts';
import type { ReadResult, Transactions } from './transactions.ts';

const TRIES = 3;

/**
 * `again`: the keep-alive was not answered or does not count, or the key is attached to another
 * lease than this store assumed. `outdated`: the claim is held, but on a lease that it should
 * leave. After both the extension is tried again.
 */
type Outcome = 'held' | 'gone' | 'again' | 'outdated';

export interface Extension extends RenewChange {
  /**
   * `waiting`: its lease is shorter than that of the hold that it may become. `granted`: it gets a
   * lease like a new claim. Otherwise it is renewed.
   */
  readonly state?: 'waiting' | 'granted';
}

/** Extends the lease of a claim, and checks at the same time that the claim's key still exists. */
export class LeaseExtension {
  readonly #leases: LeasePool;
  readonly #transactions: Transactions;

  constructor(leases: LeasePool, transactions: Transactions) {
    this.#leases = leases;
    this.#transactions = transactions;
  }

  /** False: the claim is gone. After a rejection the claim lives as long as it did before. */
  async extend(claim: Claim, change: Extension): Promise<boolean> {
    claim.renewals += 1;
    try {
      let outcome: Outcome = 'again';
      for (let tries = 0; tries < TRIES && outcome !== 'held' && outcome !== 'gone'; tries += 1) {
        const isHeld: boolean = outcome === 'outdated';
        outcome = await this.#try(claim, change).catch((error: unknown) => {
          // The claim is held on its present lease. Moving it can wait for the next renewal.
          if (isHeld) return 'held';
          throw error;
        });
      }
      if (outcome === 'again')
        throw new StoreError('The claim could not be confirmed', { applied: 'unknown' });
      return outcome !== 'gone';
    } finally {
      claim.renewals -= 1;
    }
  }

  async #try(claim: Claim, change: Extension): Promise<Outcome> {
    try {
      return await this.#confirm(claim, await this.#leaseFor(claim, change), change);
    } catch (error) {
      if (!isFull(error) || change.note !== undefined || !claim.lease.canGoOn) throw error;
      // A full database refuses to move the key, so the claim keeps its lease, from now on too.
      this.#leases.keep(claim.lease);
      return await this.#confirm(claim, this.#leases.extended(claim.lease), change);
    }
  }

  async #leaseFor(claim: Claim, { ttlMs, note, state }: Extension): Promise<LeaseUse> {
    const { lease, mode } = claim;
    const { seconds } = leaseTime(ttlMs);
    if (state === 'waiting') return this.#leases.extended(await this.#leases.forWaiting(seconds));
    if (state === 'granted') return await this.#leases.forClaim(holdTime(ttlMs, mode));
    // Another TTL with a note: the claim is left behind, and must not end before that time.
    if (note !== undefined && lease.seconds !== seconds)
      return await this.#leases.forClaim(leaseTime(ttlMs, true));
    return this.#leases.extended(await this.#leases.forKeeping(claim, ttlMs));
  }

  async #confirm(claim: Claim, { lease, alive }: LeaseUse, change: Extension): Promise<Outcome> {
    const { key, keyText } = claim;
    const moves = lease !== claim.lease || change.note !== undefined || claim.mayMove;
    // The lease counts as used from now on, so that it is not treated as empty meanwhile.
    if (moves) lease.claims.add(keyText);
    // The keep-alive is sent first: it must not be sent later than the transaction that confirms
    // it.
    const [answer, found] = await Promise.allSettled([
      alive,
      moves
        ? this.#move(claim, lease, change)
        : this.#transactions.read([{ key, keys_only: true }], attemptMs(lease.ttlMs)),
    ]);
    if (found.status === 'rejected') {
      claim.mayMove ||= moves && isUnknown(found.reason) && !isFull(found.reason);
      if (!isLeaseGone(found.reason)) throw found.reason;
      lease.claims.delete(keyText);
      lease.end();
      return 'again';
    }
    const { ranges, term, succeeded } = found.value;
    const kv = ranges[0]?.kvs[0];
    if (kv === undefined || BigInt(kv.create_revision) !== claim.revision) {
      lease.claims.delete(keyText);
      return 'gone';
    }
    claim.modRevision = BigInt(kv.mod_revision);
    // After a move whose answer was lost, the key may be attached to either lease. An earlier
    // request may also have moved it without this note.
    if (kv.lease !== lease.id || (change.note !== undefined && !succeeded)) {
      claim.mayMove = true;
      return 'again';
    }
    if (moves) {
      claim.moveTo(lease);
      claim.mayMove = false;
    }
    if (answer.status === 'rejected' || !lease.confirm(answer.value, term)) return 'again';
    return lease.state === 'ending' ? 'outdated' : 'held';
  }

  async #move(claim: Claim, { id, ttlMs }: Lease, { note }: Extension): Promise<ReadResult> {
    const { key } = claim;
    const value = note === undefined ? { ignore_value: true } : { value: Buffer.from(note) };
    const read = { request_range: { key, keys_only: true } };
    const success = [{ request_put: { key, lease: id, ...value } }, read];
    const txn = { compare: isUnmoved(claim), success, failure: [read] };
    return await this.#transactions.writes.add({ txn, conflict: key, attemptMs: attemptMs(ttlMs) });
  }
}
