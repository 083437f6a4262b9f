import type { Clock } from '../../clock.ts';
import type { Mode } from '../../store/store.ts';
import { instant } from '../../store/validity.ts';
import type { Alive, Calls } from './calls.ts';
import type { Claim } from './claim.ts';
import { Lease } from './lease.ts';
import type { Transactions } from './transactions.ts';

/** New claims share a lease for this part of their TTL. */
const SHARE_PART = 1 / 16;
const SHARE_MAX_MS = 1_000;
/** A lease with less than this share of its time left is not extended for a new claim. */
const USABLE_PART = 1 / 4;
/** Keep-alives of a lease within this time after a pending one share its answer. */
const SHARE_MS = 50;

/** The leases of one requested time. */
interface LeasePair {
  /** For new claims, while it has their full time left. It is not extended while in use. */
  open: Lease | null;
  /** Shared by all claims that are renewed, or wait. */
  kept: Lease | null;
  /** The requests for these two that are pending. */
  readonly granting: { open: Promise<Lease> | null; kept: Promise<Lease> | null };
}

/** The lease for a claim. `alive`: a keep-alive, which counts once the claim's transaction confirms it. */
export interface LeaseUse {
  readonly lease: Lease;
  readonly alive: Promise<Alive> | null;
}

/**
 * Decides which lease a claim is attached to. New claims share a lease that is not extended, so a
 * claim that is not renewed ends when its time is over, even if this process is gone. Renewed
 * claims share another lease, so that a thousand holds cost one keep-alive.
 */
export class LeasePool {
  readonly #calls: Calls;
  readonly #transactions: Transactions;
  readonly #clock: Clock;
  readonly #pairs = new Map<number, LeasePair>();

  constructor(calls: Calls, transactions: Transactions, clock: Clock) {
    this.#calls = calls;
    this.#transactions = transactions;
    this.#clock = clock;
  }

  /** A lease for a new claim. */
  async forClaim({ seconds, leastMs }: LeaseTime): Promise<LeaseUse> {
    const { open } = this.#pair(seconds);
    if (open?.canBeShared === true) {
      if (open.leftMs >= leastMs) return { lease: open, alive: null };
      // While the claim is sent, which takes one round trip in all.
      if (open.isEmpty && open.leftMs >= open.ttlMs * USABLE_PART) return this.extended(open);
    }
    return { lease: await this.#grant(seconds, 'open'), alive: null };
  }

  /**
   * The lease for a claim that is renewed: the shared one, or its own if there is no shared one.
   * The request that moves the claim may arrive although its answer and the keep-alive are lost.
   * The core then trusts the claim for as long as before, but for `ttlMs` at most. So the claim is
   * moved only to a lease that lasts as long already.
   */
  async forKeeping({ lease: own, key }: Claim, ttlMs: number): Promise<Lease> {
    const sent = instant(this.#clock);
    const { seconds } = leaseTime(ttlMs);
    const { kept } = this.#pair(seconds);
    if (kept !== null && kept !== own && kept.canGoOn) {
      const trustedMs = own.leftMs > 0 ? Math.min(own.validForMs(sent), ttlMs) : ttlMs;
      // One silent member must not fail a renewal: each attempt has a transaction of its own.
      if (kept.validForMs(sent) < trustedMs) await this.extend(kept, key).catch(() => this.extend(kept, key));
      if (kept.canGoOn && kept.validForMs(sent) >= trustedMs) return kept;
    }
    return own.seconds === seconds && own.canGoOn ? this.keep(own) : await this.#grant(seconds, 'kept');
  }

  /** The lease for a claim that waits. `Claims.sweep` extends it while a claim on it waits. */
  async forWaiting(seconds: number): Promise<Lease> {
    const { kept } = this.#pair(seconds);
    const isReady = kept?.canGoOn === true && kept.leftMs > kept.ttlMs / 2;
    return isReady ? kept : await this.#grant(seconds, 'kept');
  }

  /** Extends a lease. A transaction that reads this key confirms the keep-alive. */
  async extend(lease: Lease, key: Buffer): Promise<void> {
    const read = [{ key, count_only: true }];
    const [alive, { term }] = await Promise.all([
      this.extended(lease).alive,
      this.#transactions.read(read, attemptMs(lease.ttlMs)),
    ]);
    lease.confirm(alive, term);
  }

  /** Makes this the shared lease of renewed claims, unless there is one. */
  keep(lease: Lease): Lease {
    const pair = this.#pair(lease.seconds);
    if (pair.open === lease) pair.open = null;
    lease.state = 'kept';
    if (pair.kept?.canGoOn !== true) pair.kept = lease;
    return lease;
  }

  /** The use of a lease that is extended beside the claim's transaction. */
  extended(lease: Lease): LeaseUse {
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

  /** Drops the leases that are not needed. False when no lease is left. */
  sweep(): boolean {
    for (const [seconds, pair] of this.#pairs) {
      if (pair.kept?.isEmpty === true) pair.kept = null;
      if (pair.open !== null && isUsedUp(pair.open)) pair.open = null;
      const { open, kept, granting } = pair;
      if ((open ?? kept ?? granting.open ?? granting.kept) === null) this.#pairs.delete(seconds);
    }
    return this.#pairs.size > 0;
  }

  /** Revokes the leases without claims. */
  async close(): Promise<void> {
    const leases = [...this.#pairs.values()].flatMap(({ open, kept }) => [open ?? [], kept ?? []].flat());
    this.#pairs.clear();
    const unused = leases.filter((lease) => lease.isEmpty && lease.state !== 'ending');
    await Promise.allSettled(unused.map(({ id }) => this.#calls.revoke(id)));
  }

  #pair(seconds: number): LeasePair {
    let pair = this.#pairs.get(seconds);
    if (pair === undefined) {
      pair = { open: null, kept: null, granting: { open: null, kept: null } };
      this.#pairs.set(seconds, pair);
    }
    return pair;
  }

  /** Grants one new lease for all claims that need one at the same time. */
  #grant(seconds: number, state: 'open' | 'kept'): Promise<Lease> {
    const pair = this.#pair(seconds);
    pair.granting[state] ??= this.#calls
      .grant(seconds)
      .then((granted) => {
        const lease = new Lease(this.#clock, seconds, granted);
        lease.state = state;
        pair[state] = lease;
        return lease;
      })
      .finally(() => {
        pair.granting[state] = null;
      });
    return pair.granting[state];
  }
}

/** No new claim will use this lease. The claims on it end with it. */
const isUsedUp = (lease: Lease): boolean =>
  !lease.canBeShared ||
  lease.leftMs <= 0 ||
  (!lease.isEmpty && lease.ttlMs - lease.leftMs > SHARE_MAX_MS + 1_000);

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

/** The time limit of one attempt at one member. Several attempts must fit into the time of a lease. */
export function attemptMs(ttlMs: number): number {
  return Math.min(Math.max(ttlMs / 6, 500), 2_000);
}
