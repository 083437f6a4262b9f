import { StoreError } from '../../errors.ts';
import { isFull, isLeaseGone } from './calls.ts';
import type { Claim } from './claim.ts';
import type { Alive } from './keep-alives.ts';
import type { Lease } from './lease.ts';
import { attemptMs, type LeasePool, type Place, secondsFor } from './lease-pool.ts';
import type { Transactions } from './transactions.ts';

const TRIES = 3;

/** What a transaction has found of a claim's key. */
interface Found {
  readonly exists: boolean;
  /** The lease that the key is on. */
  readonly leaseId: string;
  readonly term: number;
}

/** `again`: not certain, try once more. `misplaced`: on another lease than was thought. `outdated`: held, on a lease that it should leave. */
type Outcome = 'held' | 'gone' | 'again' | 'misplaced' | 'outdated';

export interface Extension {
  readonly ttlMs: number;
  readonly note?: string | undefined;
}

/** Extends claims: keeps their lease alive and, beside it, looks whether the key is still there and still ours. */
export class Keeper {
  readonly #leases: LeasePool;
  readonly #transactions: Transactions;

  constructor(leases: LeasePool, transactions: Transactions) {
    this.#leases = leases;
    this.#transactions = transactions;
  }

  /** False: the claim is gone. Rejects with a `StoreError` when it could not be confirmed; then it lives as long as it did before. */
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
        const place = await this.#place(claim, change.ttlMs);
        outcome = await this.#confirm(claim, place, change.note, before === 'misplaced');
      } catch (error) {
        // It is held, on the lease that it has: moving it can wait for the next renewal.
        if (before === 'outdated') return true;
        if (!isFull(error) || change.note !== undefined || !claim.lease.canGoOn) throw error;
        outcome = await this.#confirm(claim, this.#stay(claim), undefined, false);
      }
      if (outcome === 'held' || outcome === 'gone') return outcome === 'held';
    }
    if (outcome === 'outdated') return true;
    throw new StoreError('The claim could not be confirmed', { applied: 'unknown' });
  }

  /** A claim that asks for another time gets a lease as a new one does; one that goes on shares the lease that is kept alive. */
  async #place(claim: Claim, ttlMs: number): Promise<Place> {
    if (claim.lease.seconds !== secondsFor(ttlMs)) return await this.#leases.forClaim(ttlMs);
    const lease = await this.#leases.forKeeping(claim.lease);
    return { lease, alive: this.#leases.keepAlive(lease) };
  }

  /** It could not be moved, so it stays where it is, also the next time. */
  #stay({ lease }: Claim): Place {
    this.#leases.keep(lease);
    return { lease, alive: this.#leases.keepAlive(lease) };
  }

  async #confirm(
    claim: Claim,
    { lease, alive }: Place,
    note: string | undefined,
    misplaced: boolean,
  ): Promise<Outcome> {
    const moves = lease !== claim.lease || note !== undefined || misplaced;
    // The lease counts as used at once, so that nobody takes it for an empty one meanwhile.
    if (moves) lease.claims.add(claim.keyText);
    // In this order: the keep-alive must not be sent later than what confirms it.
    const [answer, found] = await Promise.allSettled([
      alive ?? Promise.resolve(null),
      moves ? this.#move(claim, lease, note) : this.#verify(claim, lease),
    ]);
    if (found.status === 'rejected') {
      if (!isLeaseGone(found.reason)) throw found.reason;
      lease.claims.delete(claim.keyText);
      this.#leases.drop(lease);
      return 'again';
    }
    if (!found.value.exists) {
      lease.claims.delete(claim.keyText);
      return 'gone';
    }
    if (moves) claim.moveTo(lease);
    // After a move whose answer was lost the key may be on either lease.
    else if (found.value.leaseId !== lease.id) return 'misplaced';
    if (answer.status === 'rejected') throw answer.reason;
    const { term } = found.value;
    lease.see(term);
    if (!this.#judge(lease, answer.value, term)) return 'again';
    return lease.isOutdated ? 'outdated' : 'held';
  }

  #judge(lease: Lease, alive: Alive | null, term: number): boolean {
    if (alive === null) return true;
    if (alive.ttlMs === 0) this.#leases.drop(lease);
    return lease.confirm(alive, term);
  }

  async #verify(claim: Claim, lease: Lease): Promise<Found> {
    const { ranges, term } = await this.#transactions.read(
      [{ key: claim.key, keys_only: true }],
      attemptMs(lease.ttlMs),
    );
    const kv = ranges[0]?.kvs[0];
    const exists = kv !== undefined && BigInt(kv.create_revision) === claim.revision;
    return { exists, leaseId: kv?.lease ?? '', term };
  }

  async #move(claim: Claim, lease: Lease, note: string | undefined): Promise<Found> {
    const { key } = claim;
    const value = note === undefined ? { ignore_value: true } : { value: Buffer.from(note) };
    const { succeeded, term } = await this.#transactions.write(
      {
        compare: [{ target: 'Create', result: 'Equal', key, create_revision: String(claim.revision) }],
        success: [{ request_put: { key, lease: lease.id, ...value } }],
        failure: [],
      },
      [claim.keyText],
      attemptMs(lease.ttlMs),
    );
    return { exists: succeeded, leaseId: lease.id, term };
  }
}
