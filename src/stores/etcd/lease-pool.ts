import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import type { ClaimRequest, Mode, RenewChange } from '../../store/store.ts';
import { type Instant, instant } from '../../store/validity.ts';
import { isUnknown } from '../../util/error-code.ts';
import type { Alive, Calls, TxnResult } from './calls.ts';
import type { Claim } from './claim.ts';
import { isFull, isLeaseGone } from './failure.ts';
import { Lease } from './lease.ts';
import { isUnchanged } from './queues.ts';

/** New claims share a lease for this part of their TTL. */
const SHARE_PART = 1 / 16;
const SHARE_MAX_MS = 1_000;
/** A lease with less than this share of its time left is not extended for a new claim. */
const USABLE_PART = 1 / 4;
/** Keep-alives of a lease within this time after a pending one share its answer. */
const SHARE_MS = 50;
/** The longest lease of a waiter. A waiter that dies or is stopped delays the queue by this time. */
const WAITING_MS = 5_000;
/** How many times an extension is tried until it is confirmed. */
const TRIES = 3;

/**
 * The lease for a claim. `alive`: a keep-alive, which counts once the claim's transaction confirms
 * it.
 */
export interface LeaseUse {
  readonly lease: Lease;
  readonly alive: Promise<Alive> | null;
}

/**
 * `again`: the keep-alive was not answered or does not count, or the key is attached to another
 * lease than this store assumed. `outdated`: the claim is held, but on a lease that it should
 * leave. After both the extension is tried again.
 */
type Outcome = 'held' | 'gone' | 'again' | 'outdated';

/**
 * Decides which lease a claim is attached to, and extends leases. New claims share a lease that is
 * not extended, so a claim that is not renewed ends when its time is over, even if this process is
 * gone. Renewed claims share another lease, so that a thousand holds cost one keep-alive.
 */
export class LeasePool {
  readonly #calls: Calls;
  readonly #clock: Clock;
  /**
   * By requested seconds: for new claims, while they have their full time. Not extended while a
   * claim uses it.
   */
  readonly #open = new Map<number, Lease>();
  /** By requested seconds: shared by all claims that are renewed, or wait. */
  readonly #kept = new Map<number, Lease>();
  /** The grants that are pending, by what the lease is for. */
  readonly #granting = new Map<string, Promise<Lease>>();

  constructor(calls: Calls, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
  }

  async forClaim({ seconds, leastMs }: LeaseTime): Promise<LeaseUse> {
    const open = this.#open.get(seconds);
    if (open?.canBeShared === true) {
      if (open.leftMs >= leastMs) return { lease: open, alive: null };
      // While the claim is sent, which takes one round trip in all.
      if (open.isEmpty && open.leftMs >= open.ttlMs * USABLE_PART) return this.#extended(open);
    }
    return { lease: await this.#grant(seconds, 'open'), alive: null };
  }

  /**
   * For a claim that is renewed: the shared lease, or its own if there is none. The request that
   * moves the claim may arrive although its answer and the keep-alive are lost. The core then trusts
   * the claim for as long as before, but for `ttlMs` at most. So the claim is moved only to a lease
   * that lasts as long already.
   */
  async forRenewal({ lease: own, key }: Claim, { ttlMs, note }: RenewChange): Promise<LeaseUse> {
    const { seconds } = leaseTime(ttlMs);
    // Another TTL with a note: the claim is left behind, and must not end before that time.
    if (note !== undefined && own.seconds !== seconds) return await this.forClaim(leaseTime(ttlMs, true));
    const sent = instant(this.#clock);
    const kept = this.#kept.get(seconds);
    if (kept !== undefined && kept !== own && kept.canGoOn) {
      const trustedMs = own.leftMs > 0 ? Math.min(own.validForMs(sent), ttlMs) : ttlMs;
      // One silent member must not fail a renewal: each attempt has a transaction of its own.
      if (kept.validForMs(sent) < trustedMs)
        await this.extendLease(kept, key).catch(() => this.extendLease(kept, key));
      if (kept.canGoOn && kept.validForMs(sent) >= trustedMs) return this.#extended(kept);
    }
    const isOwnKept = own.seconds === seconds && own.canGoOn;
    return this.#extended(isOwnKept ? this.#keep(own) : await this.#grant(seconds, 'kept'));
  }

  /** For a claim that waits. `Claims` extends it by `extendLease` while a claim on it waits. */
  async forWaiting(ttlMs: number): Promise<LeaseUse> {
    const { seconds } = leaseTime(Math.min(ttlMs, WAITING_MS));
    const kept = this.#kept.get(seconds);
    const isReady = kept?.canGoOn === true && kept.leftMs > kept.ttlMs / 2;
    return this.#extended(isReady ? kept : await this.#grant(seconds, 'kept'));
  }

  /**
   * Attaches the claim to the lease of `leaseFor`, and sees at the same time that its key exists.
   * False: the claim is gone. After a rejection the claim lives as long as it did before.
   */
  async extend(claim: Claim, leaseFor: () => Promise<LeaseUse>, note?: string): Promise<boolean> {
    claim.renewals += 1;
    try {
      let outcome: Outcome = 'again';
      for (let tries = 0; tries < TRIES && outcome !== 'held' && outcome !== 'gone'; tries += 1) {
        const isHeld: boolean = outcome === 'outdated';
        outcome = await this.#tryToExtend(claim, leaseFor, note).catch((error: unknown) => {
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

  async #tryToExtend(claim: Claim, leaseFor: () => Promise<LeaseUse>, note?: string): Promise<Outcome> {
    try {
      return await this.#confirm(claim, await leaseFor(), note);
    } catch (error) {
      if (!isFull(error) || note !== undefined || !claim.lease.canGoOn) throw error;
      // A full database refuses to move the key, so the claim keeps its lease, from now on too.
      return await this.#confirm(claim, this.#extended(this.#keep(claim.lease)));
    }
  }

  async #confirm(claim: Claim, { lease, alive }: LeaseUse, note?: string): Promise<Outcome> {
    const { key } = claim;
    const moves = lease !== claim.lease || note !== undefined || claim.mayMove;
    if (moves) claim.addLease(lease);
    // The keep-alive was sent first, no later than the transaction that confirms it.
    const [answer, found] = await Promise.allSettled([
      alive,
      moves ? this.#move(claim, lease, note) : this.#read(key, lease),
    ]);
    if (found.status === 'rejected') {
      claim.mayMove ||= moves && isUnknown(found.reason) && !isFull(found.reason);
      if (!claim.mayMove && lease !== claim.lease) claim.leave(lease);
      if (!isLeaseGone(found.reason)) throw found.reason;
      lease.end();
      return 'again';
    }
    const { ranges, term, succeeded } = found.value;
    const kv = ranges[0]?.kvs[0];
    if (kv === undefined || BigInt(kv.create_revision) !== claim.revision) return 'gone';
    claim.modRevision = BigInt(kv.mod_revision);
    // After a move whose answer was lost, the key may be attached to either lease. An earlier
    // request may also have moved it without this note.
    if (kv.lease !== lease.id || (note !== undefined && !succeeded)) {
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

  async #move(claim: Claim, { id, ttlMs }: Lease, note?: string): Promise<TxnResult> {
    const { key } = claim;
    const value = note === undefined ? { ignore_value: true } : { value: Buffer.from(note) };
    const read = { request_range: { key, keys_only: true } };
    const success = [{ request_put: { key, lease: id, ...value } }, read];
    const txn = { compare: isUnchanged(claim), success, failure: [read] };
    return await this.#calls.writes.add({ txn, conflict: key, attemptMs: attemptMs(ttlMs) });
  }

  #read(key: Buffer, { ttlMs }: Lease): Promise<TxnResult> {
    return this.#calls.reads.add({ ranges: [{ key, keys_only: true }], attemptMs: attemptMs(ttlMs) });
  }

  /** Extends a lease. A transaction that reads this key confirms the keep-alive. */
  async extendLease(lease: Lease, key: Buffer): Promise<void> {
    const { alive } = this.#extended(lease);
    const [answer, { term }] = await Promise.all([alive, this.#read(key, lease)]);
    lease.confirm(answer, term);
  }

  /** Makes this the shared lease of renewed claims, unless there is one. */
  #keep(lease: Lease): Lease {
    const { seconds } = lease;
    if (this.#open.get(seconds) === lease) this.#open.delete(seconds);
    lease.state = 'kept';
    if (this.#kept.get(seconds)?.canGoOn !== true) this.#kept.set(seconds, lease);
    return lease;
  }

  /** The use of a lease that is extended beside the claim's transaction. */
  #extended(lease: Lease): LeaseUse {
    const sentMs = this.#clock.monotonicMs();
    if (lease.pending !== null && sentMs - lease.pending.sentMs < SHARE_MS)
      return { lease, alive: lease.pending.alive };
    const alive = this.#calls.keepAlive(lease.id, attemptMs(lease.ttlMs));
    const pending = { sentMs, alive };
    lease.pending = pending;
    const forget = (): void => {
      if (lease.pending === pending) lease.pending = null;
    };
    alive.then(forget, forget);
    return { lease, alive };
  }

  /** Grants one new lease for all claims that need one at the same time. */
  #grant(seconds: number, state: 'open' | 'kept'): Promise<Lease> {
    const needed = `${state} ${seconds}`;
    const pending = this.#granting.get(needed);
    if (pending !== undefined) return pending;
    const granting = this.#calls
      .grant(seconds)
      .then((granted) => {
        const lease = new Lease(this.#clock, seconds, granted);
        lease.state = state;
        (state === 'open' ? this.#open : this.#kept).set(seconds, lease);
        return lease;
      })
      .finally(() => this.#granting.delete(needed));
    this.#granting.set(needed, granting);
    return granting;
  }

  /** Drops the leases that are not needed. */
  sweep(): void {
    for (const [seconds, lease] of this.#kept) if (lease.isEmpty) this.#kept.delete(seconds);
    for (const [seconds, lease] of this.#open) if (isUsedUp(lease)) this.#open.delete(seconds);
  }

  async close(): Promise<void> {
    const leases = [...this.#open.values(), ...this.#kept.values()];
    const unused = leases.filter((lease) => lease.isEmpty && lease.canGoOn);
    await Promise.allSettled(unused.map(({ id }) => this.#calls.revoke(id)));
  }
}

/** No new claim will use this lease. The claims on it end with it. */
const isUsedUp = (lease: Lease): boolean =>
  lease.leftMs <= 0 || (!lease.isEmpty && lease.ttlMs - lease.leftMs > SHARE_MAX_MS + 1_000);

/** The lease that a claim needs. */
export interface LeaseTime {
  /** etcd counts in whole seconds, so the time is rounded up. etcd grants at least two seconds. */
  readonly seconds: number;
  /** A lease with less time left is not shared. */
  readonly leastMs: number;
}

/**
 * A second more would delay every waiter behind a killed holder by that second. So a new hold may
 * have a little less than its TTL until its first renewal. `isWhole`: for a claim that may never be
 * renewed and must not end early. Its lease is longer instead.
 */
export function leaseTime(ttlMs: number, isWhole = false): LeaseTime {
  const shareMs = Math.min(ttlMs * SHARE_PART, SHARE_MAX_MS);
  const leastMs = isWhole ? ttlMs : ttlMs - shareMs;
  return { seconds: Math.ceil((leastMs + shareMs) / 1_000), leastMs };
}

/** For a hold that was not renewed yet. The permits of a rate limit never are. */
export function holdTime(ttlMs: number, mode: Mode): LeaseTime {
  return leaseTime(ttlMs, mode.kind === 'permits');
}

/**
 * True when the lease has less left than a hold needs, or than a waiter needs until it asks again.
 * A waiter's lease is extended, so it is never one that new holds share.
 */
export function isStale({ lease, mayMove }: Claim, { ttlMs, mode }: ClaimRequest, sent: Instant): boolean {
  const { seconds, leastMs } = holdTime(ttlMs, mode);
  const neededMs = seconds === lease.seconds ? leastMs : (lease.ttlMs * 2) / 3;
  return mayMove || lease.state !== 'kept' || lease.validForMs(sent) < neededMs;
}

/** A keep-alive may have travelled beside the claim. Without an answer it does not count. */
export async function confirm({ lease, alive }: LeaseUse, term: number): Promise<void> {
  lease.confirm((await alive?.catch(() => null)) ?? null, term);
}

/** The time limit of one attempt at one member. Several must fit into the time of a lease. */
function attemptMs(ttlMs: number): number {
  return Math.min(Math.max(ttlMs / 6, 500), 2_000);
}
