import type { Clock } from '../../clock.ts';
import type { Mode } from '../../store/store.ts';
import { instant } from '../../store/validity.ts';
import type { Calls } from './calls.ts';
import type { Alive, KeepAlives } from './keep-alives.ts';
import { Lease } from './lease.ts';

/** New claims share a lease for this part of their TTL. */
const SHARE_PART = 1 / 16;
const SHARE_MAX_MS = 1_000;
/** A lease with less than this share of its time left is not extended for a new claim. */
const USABLE_PART = 1 / 4;

/** The open and the kept lease of one requested time. */
interface LeasePair {
  /** For new claims, while it has their full time left. It is not extended while in use. */
  open: Lease | null;
  granting: Promise<Lease> | null;
  /** The keep-alive that was sent for `open` while it was empty. */
  extended: { readonly lease: Lease; readonly alive: Promise<Alive>; readonly sentMs: number } | null;
  /** Shared by all claims that are renewed. */
  kept: Lease | null;
  keeping: Promise<Lease> | null;
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
  readonly #keepAlives: KeepAlives;
  readonly #clock: Clock;
  readonly #pairs = new Map<number, LeasePair>();

  constructor(calls: Calls, keepAlives: KeepAlives, clock: Clock) {
    this.#calls = calls;
    this.#keepAlives = keepAlives;
    this.#clock = clock;
  }

  /** A lease for a new claim. */
  async forClaim({ seconds, leastMs }: LeaseTime): Promise<LeaseUse> {
    const pair = this.#pair(seconds);
    const { open } = pair;
    if (open?.canBeShared === true) {
      if (open.leftMs >= leastMs) return { lease: open, alive: null };
      const alive = this.#extendOpen(pair, open, leastMs);
      if (alive !== null) return { lease: open, alive };
    }
    pair.granting ??= this.#grant(seconds).finally(() => {
      pair.granting = null;
    });
    pair.open = await pair.granting;
    return { lease: pair.open, alive: null };
  }

  /**
   * The lease for a claim that is renewed: the shared one, or its own if there is no shared one.
   * The request that moves the claim may arrive although its answer and the keep-alive are lost.
   * The core then trusts the claim for as long as before, but for `ttlMs` at most. So the claim is
   * moved only to a lease that lasts as long already. `prove`: as for `extend`.
   */
  async forKeeping(own: Lease, ttlMs: number, prove: () => Promise<number>): Promise<Lease> {
    const sent = instant(this.#clock);
    const { seconds } = leaseTime(ttlMs);
    const pair = this.#pair(seconds);
    const { kept } = pair;
    if (kept !== null && kept !== own && kept.canGoOn) {
      const trustedMs = own.leftMs > 0 ? Math.min(own.validForMs(sent), ttlMs) : ttlMs;
      if (kept.validForMs(sent) < trustedMs) await this.extend(kept, prove);
      if (kept.canGoOn && kept.validForMs(sent) >= trustedMs) return kept;
    }
    return own.seconds === seconds && own.canGoOn ? this.keep(own) : await this.#grantKept(pair, seconds);
  }

  /** The lease for a claim that waits. `Claims.sweep` extends it while a claim on it waits. */
  async forWaiting(seconds: number): Promise<Lease> {
    const pair = this.#pair(seconds);
    const lease = pair.kept ?? pair.open;
    const isReady = lease?.canGoOn === true && lease.leftMs > lease.ttlMs / 2;
    if (isReady && (lease.state === 'kept' || lease.isEmpty)) return this.keep(lease);
    return await this.#grantKept(pair, seconds);
  }

  /** Extends a lease. `prove`: sends a transaction, and resolves to its term. */
  async extend(lease: Lease, prove: () => Promise<number>): Promise<void> {
    const [alive, term] = await Promise.all([this.keepAlive(lease), prove()]);
    lease.see(term);
    if (alive.ttlMs === 0) lease.end();
    else lease.confirm(alive, term);
  }

  /** Makes this the shared lease of renewed claims, unless there is one. */
  keep(lease: Lease): Lease {
    const pair = this.#pair(lease.seconds);
    if (pair.open === lease) pair.open = null;
    lease.state = 'kept';
    if (pair.kept?.canGoOn !== true) pair.kept = lease;
    return lease;
  }

  keepAlive(lease: Lease): Promise<Alive> {
    return this.#keepAlives.send(lease.id, attemptMs(lease.ttlMs));
  }

  /** Drops the leases that are not needed. False when no lease is left. */
  sweep(): boolean {
    for (const [seconds, pair] of this.#pairs) {
      const { kept } = pair;
      if (kept?.isEmpty === true) {
        if (kept.state === 'kept') kept.state = 'open';
        if (pair.open === null || !pair.open.isEmpty) pair.open = kept;
        pair.kept = null;
      }
      if (pair.open !== null && isUsedUp(pair.open)) pair.open = null;
      if (pair.open === null && pair.kept === null && pair.granting === null) this.#pairs.delete(seconds);
    }
    return this.#pairs.size > 0;
  }

  /** Revokes the leases without claims. */
  async close(): Promise<void> {
    const leases = [...this.#pairs.values()].flatMap(({ open, kept }) => [open, kept]);
    this.#pairs.clear();
    const unused = leases.filter((lease) => lease?.isEmpty === true && lease.state === 'open');
    await Promise.allSettled(unused.map((lease) => lease && this.#calls.revoke(lease.id)));
  }

  #pair(seconds: number): LeasePair {
    let pair = this.#pairs.get(seconds);
    if (pair === undefined) {
      pair = { open: null, granting: null, extended: null, kept: null, keeping: null };
      this.#pairs.set(seconds, pair);
    }
    return pair;
  }

  /** Grants one new lease for all claims that need one at the same time. */
  async #grantKept(pair: LeasePair, seconds: number): Promise<Lease> {
    pair.keeping ??= this.#grant(seconds)
      .then((granted) => {
        pair.kept = null;
        return this.keep(granted);
      })
      .finally(() => {
        pair.keeping = null;
      });
    return await pair.keeping;
  }

  async #grant(seconds: number): Promise<Lease> {
    return new Lease(this.#clock, seconds, await this.#calls.grant(seconds));
  }

  /** Extends the open lease, if it is empty, while the claim that will use it is sent. */
  #extendOpen(pair: LeasePair, lease: Lease, leastMs: number): Promise<Alive> | null {
    const sentMs = this.#clock.monotonicMs();
    const last = pair.extended;
    if (last?.lease === lease && sentMs - last.sentMs <= lease.ttlMs - leastMs) return last.alive;
    if (!lease.isEmpty || lease.leftMs < lease.ttlMs * USABLE_PART) return null;
    const alive = this.keepAlive(lease);
    alive.catch(() => {});
    pair.extended = { lease, alive, sentMs };
    return alive;
  }
}

/** No new claim will use this lease. The claims on it end with it. */
const isUsedUp = (lease: Lease): boolean =>
  !lease.canBeShared || lease.leftMs <= 0 || (!lease.isEmpty && lease.ageMs > SHARE_MAX_MS + 1_000);

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
