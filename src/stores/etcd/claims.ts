import type { Clock, Timer } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Waiter,
} from '../../store/store.ts';
import { elapsedMs, type Instant, instant } from '../../store/validity.ts';
import { isUnknown } from '../../util/error-code.ts';
import { Turns } from '../../util/turns.ts';
import type { AheadWatch } from '../shared/ahead-watch.ts';
import { ClaimMap, claimKey } from '../shared/claim-map.ts';
import { asUnknownIfStanding, checkFence } from '../shared/claim-order.ts';
import type { Calls } from './calls.ts';
import { Claim } from './claim.ts';
import { isFull, isLeaseGone, notSent, unlessAborted } from './failure.ts';
import type { Keys } from './key.ts';
import { type Lease, unknownLease } from './lease.ts';
import { confirm, holdTime, isStale, LeasePool, type LeaseUse, leaseTime } from './lease-pool.ts';
import type { Enqueued, Look, Queues, Standing } from './queues.ts';

/** How soon a waiter asks again while a watch wakes it, and while there is no watch. */
const ASK_AGAIN_MS = 10_000;
const POLL_MS = 1_000;
/** For how long a watched claim stays in the queue although its caller does not ask again. */
const KEEP_MS = 3 * ASK_AGAIN_MS;
const SWEEP_MS = 1_000;
/** How many times a claim is made if its lease has ended or its key is deleted at once. */
const TRIES = 3;
/** How long the announcement of a changed note stays in etcd. */
const NOTE_MS = 1_000;

const REFUSED: ClaimOutcome = { granted: false, retryAfterMs: null };

interface Ask {
  readonly request: ClaimRequest;
  readonly signal: AbortSignal | undefined;
  readonly waiter: Waiter | null;
  readonly sent: Instant;
}

/** The claims of this store: how they enter queues, ask again, are renewed, and are removed. */
export class Claims {
  readonly #calls: Calls;
  readonly #clock: Clock;
  readonly #keys: Keys;
  readonly #queues: Queues;
  /** Of the claims that wait. */
  readonly #watch: AheadWatch<Claim>;
  readonly #leases: LeasePool;
  /** The claims of this store that exist, or may exist. */
  readonly #table = new ClaimMap<Claim>();
  /**
   * New claims of one lock enter its queue one after the other, in the order of the calls: requests
   * that are sent at the same time could reach the server in any order.
   */
  readonly #entries = new Turns();
  /**
   * By lock: the attempt without a wait whose turn has not begun. Resolves to whether it was
   * answered.
   */
  readonly #nextTries = new Map<string, Promise<boolean>>();
  /** A claim that is in the queue asks again with one request at a time. */
  readonly #asks = new Turns();
  #sweepTimer: Timer | null = null;
  #isClosed = false;

  constructor(calls: Calls, queues: Queues, keys: Keys, watch: AheadWatch<Claim>, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
    this.#keys = keys;
    this.#queues = queues;
    this.#watch = watch;
    this.#leases = new LeasePool(calls, clock);
  }

  async claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    const ask: Ask = { request, signal, waiter: waiter ?? null, sent: instant(this.#clock) };
    const known = await this.#askIfKnown(ask);
    if (known !== null) return known;
    const { name } = request;
    const isTry = !request.wait && request.mode.kind === 'exclusive';
    // Once that attempt is answered, the lock was held at some time since this call: by its claim,
    // or by another one. So any number of simultaneous attempts costs two round trips.
    for (let next = this.#nextTries.get(name); isTry && next; next = this.#nextTries.get(name))
      if (await unlessAborted(next, signal)) return (await this.#askIfKnown(ask)) ?? REFUSED;
    const isNext = isTry && this.#entries.has(name);
    const answer = this.#claimInTurn(ask, isNext);
    const isAnswered = answer.then(
      () => true,
      () => false,
    );
    if (isNext) this.#nextTries.set(name, isAnswered);
    return await answer;
  }

  async #claimInTurn(ask: Ask, isNext: boolean): Promise<ClaimOutcome> {
    const { name } = ask.request;
    const turn = this.#entries.begin(name);
    try {
      if (turn instanceof Promise)
        await unlessAborted(turn, ask.signal).finally(() => isNext && this.#nextTries.delete(name));
      for (let tries = 0; tries < TRIES; tries += 1) {
        if (ask.signal?.aborted === true) throw notSent(ask.signal.reason);
        // An earlier request by the same id may have entered the queue meanwhile.
        const outcome = (await this.#askIfKnown(ask)) ?? (await this.#makeClaim(ask));
        if (outcome !== null) return outcome;
      }
    } finally {
      // If the call was given up, its turn may come later, and ends at once.
      if (turn instanceof Promise) void turn.then((end) => end());
      else turn();
    }
    throw new StoreError(
      'The claim could not be made: its lease had ended or its key was deleted each time',
      { applied: 'unknown' },
    );
  }

  /** `null`: this store knows of no such claim. */
  async #askIfKnown(ask: Ask): Promise<ClaimOutcome | null> {
    if (this.#table.get(ask.request) === undefined) return null;
    return await this.#asks.run(claimKey(ask.request), async () => {
      const claim = this.#table.get(ask.request);
      if (claim === undefined || claim.isEntering) return null;
      claim.waiter = ask.waiter;
      const outcome = claim.isGranted ? await this.#moveHold(claim, ask) : await this.#askInQueue(claim, ask);
      if (outcome === null || outcome === REFUSED) this.#remove(claim);
      return outcome;
    });
  }

  /** Makes a new claim. `null`: its lease had ended, or its key was deleted at once. Try again. */
  async #makeClaim(ask: Ask): Promise<ClaimOutcome | null> {
    const { request, signal, waiter, sent } = ask;
    const use = await this.#leases.forClaim(holdTime(request.ttlMs, request.mode)).catch((error: unknown) => {
      throw notSent(error);
    });
    if (signal?.aborted === true) throw notSent(signal.reason);
    const claim = new Claim(request, request.mode, this.#keys.lock(request.name), use.lease);
    claim.waiter = waiter;
    claim.trust(sent);
    claim.isEntering = true;
    this.#add(claim);
    try {
      const entered = await this.#queues.enter(claim, request, signal);
      const outcome = await this.#onEntered(entered, claim, ask, use);
      if (outcome === null || outcome === REFUSED) this.#remove(claim);
      return outcome;
    } catch (failure) {
      const error = asUnknownIfStanding(failure, claim.revision !== 0n);
      // The key may exist or still be created: it ends with its lease, or is found by its id.
      if (isUnknown(error)) claim.giveUp();
      if (isUnknown(error) || isLeaseGone(error)) use.lease.end();
      this.#remove(claim);
      if (isLeaseGone(error)) return null;
      throw error;
    } finally {
      claim.isEntering = false;
    }
  }

  async #onEntered(entered: Enqueued, claim: Claim, ask: Ask, use: LeaseUse): Promise<ClaimOutcome | null> {
    const { request, sent } = ask;
    if (entered === 'refused') return REFUSED;
    if (entered === 'existed') return await this.#askInQueue(claim, ask);
    await confirm(use, entered.term);
    if (entered.standing.granted) return this.#grant(claim, sent);
    this.#watchAhead(claim, entered.standing, entered.revision);
    return (await this.#extendWaiting(claim, request)) ? this.#refuse(claim, sent) : null;
  }

  /** Keeps the queue position. False: the claim is gone. */
  #extendWaiting(claim: Claim, { ttlMs }: ClaimRequest): Promise<boolean> {
    return this.#leases.extend(claim, () => this.#leases.forWaiting(ttlMs));
  }

  /** Keeps the queue position, and checks whether the claim is granted. `null`: the claim is gone. */
  async #askInQueue(claim: Claim, ask: Ask): Promise<ClaimOutcome | null> {
    // The key was deleted as soon as it was created.
    if (claim.revision === 0n) return null;
    const { request, sent } = ask;
    const { seconds } = holdTime(request.ttlMs, request.mode);
    const takes = claim.isNext && claim.lease.seconds !== seconds && claim.mode.kind === 'exclusive';
    const mustExtend = !takes && isStale(claim, request, sent);
    // After a failure the claim lives as long as it did before.
    const extended = mustExtend ? this.#extendWaiting(claim, request).catch(() => true) : true;
    const looked = takes ? this.#take(claim, request) : this.#queues.look(claim);
    const look = await looked.finally(() => extended);
    if (look === null || !(await extended)) return null;
    const tooLow = checkFence(look.revision + 1n, request.fenceAbove, 'The next etcd revision');
    if (tooLow !== null) throw tooLow;
    if (!look.standing.granted && request.wait) {
      this.#watchAhead(claim, look.standing, look.revision);
      return this.#refuse(claim, sent);
    }
    if (!look.standing.granted) {
      await this.#queues.withdraw(claim);
      return REFUSED;
    }
    // A hold lives for the TTL that was asked for, not for the lease time of a waiter.
    return claim.lease.seconds === seconds ? this.#grant(claim, sent) : await this.#moveHold(claim, ask);
  }

  async #moveHold(claim: Claim, { request, sent }: Ask): Promise<ClaimOutcome | null> {
    const time = holdTime(request.ttlMs, claim.mode);
    const isThere = await this.#leases.extend(claim, () => this.#leases.forClaim(time));
    return isThere ? this.#grant(claim, sent) : null;
  }

  /** For a claim that is probably next: moves it to the lease of a hold if it is granted. */
  async #take(claim: Claim, { ttlMs, mode }: ClaimRequest): Promise<Look | null> {
    try {
      const use = await this.#leases.forClaim(holdTime(ttlMs, mode));
      const look = await this.#queues.take(claim, use.lease);
      if (look !== null && claim.lease === use.lease) await confirm(use, look.term);
      return look;
    } catch (error) {
      // A full database refuses the lease, or the move. The claim can hold on its present lease.
      if (!isFull(error)) throw error;
      return await this.#queues.look(claim);
    }
  }

  #grant(claim: Claim, sent: Instant): ClaimOutcome {
    const validForMs = claim.trust(sent);
    if (validForMs <= 0)
      throw new StoreError('The lease of the claim was not confirmed in time', { applied: 'unknown' });
    if (!claim.isGranted) claim.grantedAtMs = this.#clock.monotonicMs();
    claim.isGranted = true;
    claim.waiter = null;
    this.#watch.end(claim);
    return { granted: true, fence: claim.revision, validForMs };
  }

  /** To be called before a refusal: every change after `revision` then wakes the waiter. */
  #watchAhead(claim: Claim, standing: Standing & { granted: false }, revision: bigint): void {
    claim.isNext = false;
    void this.#watch.arm(claim, standing.behind, revision);
  }

  #refuse(claim: Claim, sent: Instant): ClaimOutcome {
    const livesMs = claim.trust(sent);
    if (!this.#watch.isWatched(claim))
      return { granted: false, retryAfterMs: Math.max(Math.min(livesMs / 3, POLL_MS), 1) };
    claim.validForMs = KEEP_MS;
    // A random part, so that claims that came together do not ask again together.
    return { granted: false, retryAfterMs: ASK_AGAIN_MS * (0.75 + this.#clock.random() / 4) };
  }

  async renew(ref: ClaimRef, change: RenewChange): Promise<RenewOutcome> {
    const sent = instant(this.#clock);
    const claim = await this.#findGranted(ref);
    if (claim === null) return { held: false };
    const leaseFor = (): Promise<LeaseUse> => this.#leases.forRenewal(claim, change);
    if (!(await this.#leases.extend(claim, leaseFor, change.note))) {
      this.#remove(claim);
      return { held: false };
    }
    const validForMs = claim.trust(sent);
    if (change.note !== undefined) {
      // A claim with a last note may stay for a year, so it is forgotten. `#findGranted` finds it.
      if (claim.lease.state === 'open') claim.lease.state = 'fixed';
      if (claim.lease.state !== 'kept') this.#remove(claim);
      // The waiters also poll, so a failure does not matter.
      await this.#announceNote(claim).catch(() => {});
    }
    return { held: true, validForMs };
  }

  /** Also finds a claim that another store has made, or that this store has forgotten. */
  async #findGranted(ref: ClaimRef): Promise<Claim | null> {
    const known = this.#table.get(ref);
    if (known?.isGranted === true) return known;
    const lock = this.#keys.lock(ref.name);
    const found = await this.#queues.find(lock, ref.id);
    if (!found?.ours || !found.isGranted) return null;
    if (known !== undefined) return known.revision === found.revision ? known : null;
    const claim = new Claim(ref, found.mode, lock, unknownLease());
    claim.revision = found.revision;
    claim.modRevision = found.modRevision;
    claim.isGranted = true;
    this.#add(claim);
    return claim;
  }

  #add(claim: Claim): void {
    this.#table.add(claim);
    claim.addLease(claim.lease);
    this.#sweepLater();
  }

  #remove(claim: Claim): void {
    this.#table.delete(claim);
    claim.leaveAll();
    this.#watch.end(claim);
    claim.endKeyWatch();
  }

  /** Wakes the waiters of the lock. The key ends with its lease. */
  async #announceNote({ lock: { note: key } }: Claim): Promise<void> {
    const { lease } = await this.#leases.forClaim(leaseTime(NOTE_MS));
    const put = { request_put: { key, lease: lease.id, value: Buffer.alloc(0) } };
    await this.#calls.writes.add({ txn: { compare: [], success: [put], failure: [] }, conflict: key });
  }

  async release(ref: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    const claim = this.#table.get(ref);
    if (claim) claim.waiter = null;
    // The deletion that follows is no eviction.
    claim?.endKeyWatch();
    try {
      if (signal?.aborted === true) throw new StoreError('The release was not sent', { applied: 'no' });
      if (claim === undefined) return await this.evict(ref);
      const isRemoved = await this.#queues.remove(claim);
      // A pending request may still create the key, and then the claim must be released again.
      if (isRemoved || !claim.isEntering) this.#remove(claim);
      return isRemoved;
    } catch (error) {
      // The claim must not be extended any more. The next release finds the key by the claim's id.
      claim?.giveUp();
      if (claim?.isEntering === false) this.#remove(claim);
      throw error;
    }
  }

  async evict({ name, id }: ClaimRef): Promise<boolean> {
    const found = await this.#queues.find(this.#keys.lock(name), id);
    return found !== null && (await this.#queues.remove(found));
  }

  /** `null`: not known to this store. */
  heldForMs(ref: ClaimRef): number | null {
    const grantedAtMs = this.#table.get(ref)?.grantedAtMs ?? null;
    return grantedAtMs === null ? null : this.#clock.monotonicMs() - grantedAtMs;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#sweepTimer?.cancel();
    await this.#leases.close();
  }

  /** Sweeps every second while there are claims. The timer does not keep the process alive. */
  #sweepLater(): void {
    if (this.#isClosed) return;
    this.#sweepTimer ??= this.#clock.startTimer(SWEEP_MS, () => {
      this.#sweepTimer = null;
      this.#sweep();
      this.#leases.sweep();
      if (this.#table.size > 0) this.#sweepLater();
    });
  }

  /**
   * Extends the leases of waiting claims, with one request for each lease. Removes claims whose own
   * time is over although their lease lives on, and forgets claims whose lease must have ended.
   */
  #sweep(): void {
    const extended = new Set<Lease>();
    for (const claim of this.#table) {
      const { lease } = claim;
      const overMs = elapsedMs(this.#clock, claim.sent) - claim.validForMs;
      if (claim.isEntering || claim.renewals > 0) continue;
      if (overMs >= 0) this.#end(claim, overMs);
      else if (claim.isGranted || claim.waiter === null || extended.has(lease)) continue;
      // The lease cannot be extended. The claim asks again, and moves to another lease.
      else if (!lease.canGoOn) claim.waiter.wake();
      else if (lease.leftMs <= (lease.ttlMs * 2) / 3) {
        extended.add(lease);
        this.#leases.extendLease(lease, claim.key).catch(() => {});
      }
    }
  }

  #end(claim: Claim, overMs: number): void {
    const forget = (): void => {
      // A renewal that began while the key was being removed finds the claim gone.
      if (claim.renewals > 0) return;
      this.#remove(claim);
      claim.waiter?.wake();
    };
    // Other claims may extend a lease to which a request without an answer has moved the key.
    const mayLiveOn = [...claim.leases].some(({ leftMs }) => leftMs > 0);
    if (mayLiveOn) this.#queues.remove(claim).then(forget, () => {});
    else if (overMs > claim.lease.ttlMs) {
      claim.giveUp();
      forget();
    }
  }
}
