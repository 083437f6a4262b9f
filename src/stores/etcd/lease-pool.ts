import type { Clock } from '../../clock.ts';
import { type Instant, instant } from '../../hold/validity.ts';
import type { Calls } from './calls.ts';
import type { Alive, KeepAlives } from './keep-alives.ts';
import { Lease } from './lease.ts';

/** A lease is asked for with this much more than a claim wants, so that claims of the next moment can share it and still get their full time. */
const SHARE_PART = 1 / 16;
const SHARE_MAX_MS = 1_000;
/** How long an unused lease is kept ready after the last claim: the next claim then takes one round trip. */
const READY_MS = 60_000;
/** A lease with less left than this share of its time is not taken up again. */
const USABLE_PART = 1 / 4;

/** The leases of one asked time. */
interface Shelf {
  /** New claims go here, as long as that gives them their full time. It is not kept alive while claims are on it. */
  open: Lease | null;
  granting: Promise<Lease> | null;
  /** Extended when `open` was empty; counts when the claim's own transaction has confirmed it. */
  freshened: { readonly lease: Lease; readonly alive: Promise<Alive>; readonly sent: Instant } | null;
  /** Claims that go on move here and share it. */
  kept: Lease | null;
  keeping: Promise<Lease> | null;
  usedMs: number;
}

export interface Place {
  readonly lease: Lease;
  /** To be confirmed by the transaction that uses the lease. */
  readonly alive: Promise<Alive> | null;
}

/**
 * Which lease a claim lives on. New claims share a lease that nobody extends, so a claim that nobody renews ends when its time is over, also when this process is gone. Claims
 * that are renewed share another one, so that a thousand holds cost one keep-alive.
 */
export class LeasePool {
  readonly #calls: Calls;
  readonly #keepAlives: KeepAlives;
  readonly #clock: Clock;
  readonly #shelves = new Map<number, Shelf>();

  constructor(calls: Calls, keepAlives: KeepAlives, clock: Clock) {
    this.#calls = calls;
    this.#keepAlives = keepAlives;
    this.#clock = clock;
  }

  /** A lease for a new claim, with at least `ttlMs` left. */
  async forClaim(ttlMs: number): Promise<Place> {
    const seconds = secondsFor(ttlMs);
    const shelf = this.#shelf(seconds);
    shelf.usedMs = this.#clock.monotonicMs();
    const { open } = shelf;
    if (open?.canBeShared === true) {
      if (open.ageMs <= open.ttlMs - ttlMs) return { lease: open, alive: null };
      const alive = this.#freshen(shelf, open, ttlMs);
      if (alive !== null) return { lease: open, alive };
    }
    shelf.granting ??= this.#grant(seconds)
      .then((lease) => {
        shelf.open = lease;
        return lease;
      })
      .finally(() => {
        shelf.granting = null;
      });
    return { lease: await shelf.granting, alive: null };
  }

  /** The lease for a claim that goes on: its own when that may be kept alive, else the shared one. */
  async forKeeping(lease: Lease): Promise<Lease> {
    const shelf = this.#shelf(lease.seconds);
    if (lease.isKept && lease.canGoOn) return lease;
    const shared = keptOn(shelf);
    if (shared !== null) return shared;
    if (lease.canGoOn) return keepOn(shelf, lease);
    // One new lease for all that are renewed at once.
    shelf.keeping ??= this.#grant(lease.seconds)
      .then((granted) => keepOn(shelf, granted))
      .finally(() => {
        shelf.keeping = null;
      });
    return await shelf.keeping;
  }

  /** It goes on for the claims on it that ask for it, and they stay on it. */
  keep(lease: Lease): void {
    keepOn(this.#shelf(lease.seconds), lease);
  }

  keepAlive(lease: Lease): Promise<Alive> {
    return this.#keepAlives.send(lease.id, attemptMs(lease.ttlMs));
  }

  /** There is no such lease any more. */
  drop(lease: Lease): void {
    lease.isGone = true;
  }

  /** An outcome on it is unknown. */
  taint(lease: Lease): void {
    lease.isTainted = true;
  }

  /** Puts away what nobody needs, and keeps ready what may be needed soon. False when nothing is left. */
  sweep(prove: () => Promise<number>): boolean {
    const nowMs = this.#clock.monotonicMs();
    for (const [seconds, shelf] of this.#shelves) {
      if (shelf.kept?.isEmpty === true) {
        shelf.kept.isKept = false;
        if (shelf.open === null || !shelf.open.isEmpty) shelf.open = shelf.kept;
        shelf.kept = null;
      }
      if (shelf.open !== null && isUsedUp(shelf.open)) shelf.open = null;
      const inUse = nowMs - shelf.usedMs < READY_MS;
      if (shelf.open !== null && inUse) this.#keepReady(shelf.open, prove);
      if (shelf.open === null && shelf.kept === null && shelf.granting === null)
        this.#shelves.delete(seconds);
    }
    return this.#shelves.size > 0;
  }

  /** Ends the leases that carry nothing. */
  async close(): Promise<void> {
    const unused = [...this.#shelves.values()].flatMap(({ open, kept }) => [open, kept]);
    this.#shelves.clear();
    await Promise.allSettled(
      unused.map(async (lease) => {
        if (lease?.isEmpty === true && lease.canBeShared) await this.#calls.revoke(lease.id);
      }),
    );
  }

  #shelf(seconds: number): Shelf {
    let shelf = this.#shelves.get(seconds);
    if (shelf === undefined) {
      shelf = { open: null, granting: null, freshened: null, kept: null, keeping: null, usedMs: 0 };
      this.#shelves.set(seconds, shelf);
    }
    return shelf;
  }

  async #grant(seconds: number): Promise<Lease> {
    return new Lease(this.#clock, seconds, await this.#calls.grant(seconds));
  }

  /** Extends the open lease together with the claim that will use it. Only while it carries nothing that this would prolong. */
  #freshen(shelf: Shelf, lease: Lease, ttlMs: number): Promise<Alive> | null {
    const now = instant(this.#clock);
    const last = shelf.freshened;
    if (last?.lease === lease && now.monotonicMs - last.sent.monotonicMs <= lease.ttlMs - ttlMs)
      return last.alive;
    if (!lease.isEmpty || lease.leftMs < lease.ttlMs * USABLE_PART) return null;
    const alive = this.keepAlive(lease);
    alive.catch(() => {});
    shelf.freshened = { lease, alive, sent: now };
    return alive;
  }

  #keepReady(lease: Lease, prove: () => Promise<number>): void {
    if (!lease.isEmpty || lease.leftMs > lease.ttlMs / 2) return;
    const alive = this.keepAlive(lease);
    Promise.all([alive, prove()]).then(
      ([answer, term]) => {
        lease.see(term);
        if (answer.ttlMs === 0) this.drop(lease);
        else lease.confirm(answer, term);
      },
      () => {},
    );
  }
}

function keepOn(shelf: Shelf, lease: Lease): Lease {
  if (shelf.open === lease) shelf.open = null;
  lease.isKept = true;
  shelf.kept = lease;
  return lease;
}

/** The shared lease of claims that go on, if it can be relied on. */
const keptOn = ({ kept }: Shelf): Lease | null => (kept?.canGoOn === true ? kept : null);

/** No claim will go on it any more: what is on it ends with it. */
const isUsedUp = (lease: Lease): boolean =>
  !lease.canBeShared || lease.leftMs <= 0 || (!lease.isEmpty && lease.ageMs > SHARE_MAX_MS + 1_000);

/** Whole seconds, rounded up: that is all that etcd knows. It grants two at least. */
export function secondsFor(ttlMs: number): number {
  return Math.ceil((ttlMs + Math.min(ttlMs * SHARE_PART, SHARE_MAX_MS)) / 1_000);
}

/** How long to wait for one member before another is asked: several tries must fit into the time that is left. */
export function attemptMs(ttlMs: number): number {
  return Math.min(Math.max(ttlMs / 6, 500), 2_000);
}
