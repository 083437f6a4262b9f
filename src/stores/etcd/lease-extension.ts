import { StoreError } from '../../errors.ts';
import { isUnknown } from '../../util/error-code.ts';
import { isFull, isLeaseGone } from './calls.ts';
import type { Claim } from './claim.ts';
import { isUnmoved } from './enqueue-txn.ts';
import type { Lease } from './lease.ts';
import { attemptMs, holdTime, type LeasePool, type LeaseUse, leaseTime } from './lease-pool.ts';
import type { ReadResult, Transactions } from './transactions.ts';

const TRIES = 3;

/** What a transaction has shown about a claim's key. */
interface Found {
  readonly exists: boolean;
  /** The lease that the key is on. */
  readonly leaseId: string;
  readonly term: number;
}

/**
 * `again`: the extension is not certain. `misplaced`: the key is attached to another lease than
 * this store assumed. `outdated`: the claim is held, but on a lease that it should leave. After
 * each of these three the extension is tried again.
 */
type Outcome = 'held' | 'gone' | 'again' | 'misplaced' | 'outdated';

export interface Extension {
  readonly ttlMs: number;
  readonly note?: string | undefined;
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
      return await this.#extend(claim, change);
    } finally {
      claim.renewals -= 1;
    }
  }

  async #extend(claim: Claim, change: Extension): Promise<boolean> {
    let outcome: Outcome = 'again';
    for (let tries = 0; tries < TRIES; tries += 1) {
      const before: Outcome = outcome;
      try {
        const use = await this.#leaseFor(claim, change);
        outcome = await this.#confirm(claim, use, change, before === 'misplaced');
      } catch (error) {
        // The claim is held on its present lease. Moving it can wait for the next renewal.
        if (before === 'outdated') return true;
        if (!isFull(error) || change.note !== undefined || !claim.lease.canGoOn) throw error;
        // A full database refuses to move the key, so the claim keeps its lease, from now on too.
        this.#leases.keep(claim.lease);
        outcome = await this.#confirm(claim, this.#extended(claim.lease), change, false);
      }
      if (outcome === 'held' || outcome === 'gone') return outcome === 'held';
    }
    if (outcome === 'outdated') return true;
    throw new StoreError('The claim could not be confirmed', { applied: 'unknown' });
  }

  async #leaseFor(claim: Claim, { ttlMs, note, state }: Extension): Promise<LeaseUse> {
    const { lease, mode } = claim;
    const { seconds } = leaseTime(ttlMs);
    const isSameTime = lease.seconds === seconds;
    if (state === 'waiting')
      return this.#extended(isSameTime && lease.canGoOn ? lease : await this.#leases.forWaiting(seconds));
    if (state === 'granted') return await this.#leases.forClaim(holdTime(ttlMs, mode));
    // Another TTL with a note: the claim is left behind, and must not end before that time.
    if (note !== undefined && !isSameTime) return await this.#leases.forClaim(leaseTime(ttlMs, true));
    const prove = async (): Promise<number> => (await this.#verify(claim, lease.ttlMs)).term;
    return this.#extended(await this.#leases.forKeeping(lease, ttlMs, prove));
  }

  #extended(lease: Lease): LeaseUse {
    return { lease, alive: this.#leases.keepAlive(lease) };
  }

  async #confirm(
    claim: Claim,
    { lease, alive }: LeaseUse,
    change: Extension,
    misplaced: boolean,
  ): Promise<Outcome> {
    const moves = lease !== claim.lease || change.note !== undefined || misplaced || claim.mayMove;
    // The lease counts as used from now on, so that it is not treated as empty meanwhile.
    if (moves) lease.claims.add(claim.keyText);
    // The keep-alive is sent first: it must not be sent later than the transaction that confirms
    // it.
    const [answer, found] = await Promise.allSettled([
      alive ?? Promise.resolve(null),
      moves ? this.#move(claim, lease, change) : this.#verify(claim, lease.ttlMs),
    ]);
    if (found.status === 'rejected') {
      claim.mayMove ||= moves && isUnknown(found.reason) && !isFull(found.reason);
      if (!isLeaseGone(found.reason)) throw found.reason;
      lease.claims.delete(claim.keyText);
      lease.end();
      return 'again';
    }
    if (!found.value.exists) {
      lease.claims.delete(claim.keyText);
      return 'gone';
    }
    // After a move whose answer was lost, the key may be attached to either lease.
    if (found.value.leaseId !== lease.id) return 'misplaced';
    if (moves) {
      claim.moveTo(lease);
      claim.mayMove = false;
    }
    if (answer.status === 'rejected') throw answer.reason;
    const { term } = found.value;
    lease.see(term);
    const isConfirmed = answer.value === null || lease.confirm(answer.value, term);
    if (answer.value?.ttlMs === 0) lease.end();
    if (!isConfirmed) return 'again';
    return lease.state === 'ending' ? 'outdated' : 'held';
  }

  async #verify(claim: Claim, leaseTtlMs: number): Promise<Found> {
    const range = { key: claim.key, keys_only: true };
    return foundIn(claim, await this.#transactions.read([range], attemptMs(leaseTtlMs)));
  }

  async #move(claim: Claim, lease: Lease, { note }: Extension): Promise<Found> {
    const { key, keyText } = claim;
    const value = note === undefined ? { ignore_value: true } : { value: Buffer.from(note) };
    const txn = {
      compare: isUnmoved(claim),
      success: [{ request_put: { key, lease: lease.id, ...value } }],
      failure: [{ request_range: { key, keys_only: true } }],
    };
    const write = { txn, conflicts: [keyText], attemptMs: attemptMs(lease.ttlMs) };
    const moved = await this.#transactions.writes.add(write);
    if (!moved.succeeded) {
      const found = foundIn(claim, moved);
      // An earlier request has moved the key, perhaps without this note.
      return note === undefined ? found : { ...found, leaseId: '' };
    }
    claim.modRevision = moved.revision;
    return { exists: true, leaseId: lease.id, term: moved.term };
  }
}

function foundIn(claim: Claim, { ranges, term }: ReadResult): Found {
  const kv = ranges[0]?.kvs[0];
  if (kv === undefined || BigInt(kv.create_revision) !== claim.revision)
    return { exists: false, leaseId: '', term };
  claim.modRevision = BigInt(kv.mod_revision);
  return { exists: true, leaseId: kv.lease, term };
}
