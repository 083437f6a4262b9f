import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import type { ClaimOutcome, ClaimRequest, Waiter } from '../../store/store.ts';
import { elapsedMs, type Instant } from '../../store/validity.ts';
import { isUnknown } from '../../util/error-code.ts';
import { Turns } from '../../util/turns.ts';
import { claimKey } from '../shared/claim-map.ts';
import { asUnknownIfStanding, checkFence } from '../shared/claim-order.ts';
import { isLeaseGone } from './calls.ts';
import { Claim } from './claim.ts';
import type { ClaimTable } from './claim-table.ts';
import type { Enqueue, Enqueued } from './enqueue.ts';
import type { Keys } from './key.ts';
import type { Lease } from './lease.ts';
import type { Extension, LeaseExtension } from './lease-extension.ts';
import { holdTime, type LeasePool, type LeaseUse } from './lease-pool.ts';
import type { Verdict } from './queue.ts';
import type { Look, QueueReader } from './queue-reader.ts';

/**
 * The lease time of a claim that waits, unless its TTL is shorter. A waiter that dies or is stopped
 * delays the queue by this time.
 */
const WAITING_MS = 5_000;
/** How soon a waiter asks again while a watch wakes it, and while there is no watch. */
const ASK_AGAIN_MS = 10_000;
const POLL_MS = 1_000;
/** For how long a watched claim stays in the queue although its caller does not ask again. */
const KEEP_MS = 3 * ASK_AGAIN_MS;

export const REFUSED: ClaimOutcome = { granted: false, retryAfterMs: null };

/** One call of `claim`. */
export interface Ask {
  readonly request: ClaimRequest;
  readonly signal: AbortSignal | undefined;
  readonly waiter: Waiter | null;
  readonly sent: Instant;
}

interface ClaimsOptions {
  readonly clock: Clock;
  readonly keys: Keys;
  readonly table: ClaimTable;
  readonly leases: LeasePool;
  readonly extension: LeaseExtension;
  readonly enqueue: Enqueue;
  readonly reader: QueueReader;
}

/** The steps of `claim`: entering the queue, asking again, and recovering from a lost reply. */
export class Claims {
  readonly #options: ClaimsOptions;
  /** A claim that is in the queue asks again with one request at a time. */
  readonly #asks = new Turns();

  constructor(options: ClaimsOptions) {
    this.#options = options;
  }

  /** `null`: this store knows of no such claim. */
  async askAgain(ask: Ask): Promise<ClaimOutcome | null> {
    if (this.#options.table.get(ask.request) === undefined) return null;
    return await this.#asks.run(claimKey(ask.request), () => this.#askKnown(ask));
  }

  async #askKnown({ request, sent, waiter }: Ask): Promise<ClaimOutcome | null> {
    const { table, extension } = this.#options;
    const claim = table.get(request);
    if (claim === undefined || claim.revision === null || claim.isEntering) return null;
    claim.waiter = waiter;
    let outcome: ClaimOutcome | null = null;
    if (!claim.isGranted) outcome = await this.#askInQueue(claim, request, sent);
    else if (await extension.extend(claim, { ttlMs: request.ttlMs, state: 'granted' }))
      outcome = this.#grant(claim, sent);
    if (outcome === null) table.remove(claim);
    return outcome;
  }

  /** Makes a new claim. `null`: its lease had ended, or its key was deleted at once. Try again. */
  async enter({ request, signal, waiter, sent }: Ask, isLast: boolean): Promise<ClaimOutcome | null> {
    const { leases, keys, table, enqueue } = this.#options;
    const use = await leases.forClaim(holdTime(request.ttlMs, request.mode)).catch((error: unknown) => {
      throw notSent(error);
    });
    if (signal?.aborted === true) throw notSent(signal.reason);
    const lock = keys.lock(request.name);
    const claim = new Claim(request, request.mode, lock, lock.claim(request.id, request.mode), use.lease);
    claim.waiter = waiter;
    claim.trust(sent);
    claim.isEntering = true;
    table.add(claim);
    try {
      const entered = await enqueue.enter(claim, request, signal);
      const outcome = await this.#onEntered(claim, request, entered, use, sent);
      if (outcome === null || entered.kind === 'refused') table.remove(claim);
      return outcome;
    } catch (failure) {
      table.remove(claim);
      const error = asUnknownIfStanding(failure, claim.mayStand);
      // The key may exist, or may still be created. It ends with its lease, or a later request
      // finds it by its id.
      if (isUnknown(error) || isLeaseGone(error)) use.lease.end();
      if (!isLeaseGone(error) || isLast) throw error;
      return null;
    } finally {
      claim.isEntering = false;
    }
  }

  async #onEntered(
    claim: Claim,
    request: ClaimRequest,
    entered: Enqueued,
    use: LeaseUse,
    sent: Instant,
  ): Promise<ClaimOutcome | null> {
    if (entered.kind === 'refused') return REFUSED;
    if (entered.kind === 'existed') return await this.#askInQueue(claim, request, sent);
    await confirm(use, entered.term);
    if (entered.verdict.granted) return this.#grant(claim, sent);
    this.#watchAhead(claim, entered.verdict, entered.revision);
    const isExtended = await this.#options.extension.extend(claim, waiting(request));
    return isExtended ? this.#refuse(claim, sent) : null;
  }

  /** Keeps the queue position, and checks whether the claim is granted. `null`: the claim is gone. */
  async #askInQueue(claim: Claim, request: ClaimRequest, sent: Instant): Promise<ClaimOutcome | null> {
    const { reader, extension, enqueue, table } = this.#options;
    const { revision, lease } = claim;
    if (revision === null) return null;
    const { seconds } = holdTime(request.ttlMs, request.mode);
    const takes = claim.isNext && lease.seconds !== seconds && claim.mode.kind === 'exclusive';
    const extends_ = !takes && isStale(claim, request, sent);
    const [extended, looked] = await Promise.allSettled([
      extends_ ? extension.extend(claim, waiting(request)) : true,
      takes ? this.#take(claim, revision, request) : reader.look(claim, revision),
    ]);
    if (looked.status === 'rejected') throw looked.reason;
    const look = looked.value;
    if (!look.isThere || (extended.status === 'fulfilled' && !extended.value)) return null;
    const tooLow = checkFence(look.revision + 1n, request.fenceAbove, 'The next etcd revision');
    if (tooLow !== null) throw tooLow;
    if (!look.verdict.granted && request.wait) {
      this.#watchAhead(claim, look.verdict, look.revision);
      return this.#refuse(claim, sent);
    }
    if (!look.verdict.granted) {
      await enqueue.withdraw(claim);
      table.remove(claim);
      return REFUSED;
    }
    // A hold lives for the TTL that was asked for, not for the lease time of a waiter.
    const isMoved = claim.lease.seconds === seconds;
    if (!isMoved && !(await extension.extend(claim, { ttlMs: request.ttlMs, state: 'granted' }))) return null;
    return this.#grant(claim, sent);
  }

  /** For a claim that is probably next: moves it to the lease of a hold if it is granted. */
  async #take(claim: Claim, revision: bigint, { ttlMs, mode }: ClaimRequest): Promise<Look> {
    const use = await this.#options.leases.forClaim(holdTime(ttlMs, mode));
    const look = await this.#options.enqueue.take(claim, revision, use.lease);
    if (look.isThere && claim.lease === use.lease) await confirm(use, look.term);
    return look;
  }

  #grant(claim: Claim, sent: Instant): ClaimOutcome {
    const validForMs = claim.trust(sent);
    if (validForMs <= 0)
      throw new StoreError('The lease of the claim was not confirmed in time', { applied: 'unknown' });
    if (!claim.isGranted) claim.grantedAtMs = this.#options.clock.monotonicMs();
    claim.isGranted = true;
    claim.waiter = null;
    this.#options.table.watch.end(claim);
    return { granted: true, fence: claim.revision ?? 0n, validForMs };
  }

  /** To be called before a refusal: every change after `revision` then wakes the waiter. */
  #watchAhead(claim: Claim, verdict: Verdict & { granted: false }, revision: bigint): void {
    claim.isNext = false;
    void this.#options.table.watch.arm(claim, verdict.behind?.toString('latin1') ?? null, revision);
  }

  #refuse(claim: Claim, sent: Instant): ClaimOutcome {
    const livesMs = claim.trust(sent);
    if (!this.#options.table.watch.isWatched(claim))
      return { granted: false, retryAfterMs: Math.max(Math.min(livesMs / 3, POLL_MS), 1) };
    claim.validForMs = KEEP_MS;
    // A random part, so that claims that came together do not ask again together.
    return { granted: false, retryAfterMs: ASK_AGAIN_MS * (0.75 + this.#options.clock.random() / 4) };
  }

  /**
   * Extends the leases of waiting claims, with one request for each lease. Removes claims whose own
   * time is over although their lease lives on, and forgets claims whose lease must have ended.
   * False when no claim is left.
   */
  sweep(): boolean {
    const { clock, table, leases, reader } = this.#options;
    const extended = new Set<Lease>();
    for (const claim of table) {
      const { lease } = claim;
      const overMs = elapsedMs(clock, claim.sent) - claim.validForMs;
      if (claim.isEntering || claim.renewals > 0) continue;
      if (overMs >= 0) this.#end(claim, overMs);
      else if (claim.isGranted || claim.waiter === null || extended.has(lease)) continue;
      // The lease cannot be extended. The claim asks again, and moves to another lease.
      else if (!lease.canGoOn) claim.waiter.wake();
      else if (lease.leftMs <= (lease.ttlMs * 2) / 3) {
        extended.add(lease);
        leases.extend(lease, () => reader.term(claim)).catch(() => {});
      }
    }
    return table.size > 0;
  }

  #end(claim: Claim, overMs: number): void {
    const { table, reader } = this.#options;
    const forget = (): void => {
      // A renewal may have begun while the key was being removed. That renewal finds the claim
      // gone.
      if (claim.renewals === 0) table.remove(claim);
    };
    if (claim.lease.leftMs > 0) reader.remove(claim.key, claim.revision).then(forget, () => {});
    else if (overMs > claim.lease.ttlMs) forget();
  }
}

/** The extension of a waiting claim. */
const waiting = ({ ttlMs }: ClaimRequest): Extension => ({
  ttlMs: Math.min(ttlMs, WAITING_MS),
  state: 'waiting',
});

/** True when the lease has less left than a hold needs, or than a waiter needs until it asks again. */
function isStale({ lease, mayMove }: Claim, { ttlMs, mode }: ClaimRequest, sent: Instant): boolean {
  const { seconds, leastMs } = holdTime(ttlMs, mode);
  const neededMs = seconds === lease.seconds ? leastMs : (lease.ttlMs * 2) / 3;
  return mayMove || lease.validForMs(sent) < neededMs || !lease.canGoOn;
}

/** A keep-alive may have travelled beside the claim. Without an answer it does not count. */
async function confirm({ lease, alive }: LeaseUse, term: number): Promise<void> {
  lease.see(term);
  const answer = await alive?.catch(() => null);
  if (answer) lease.confirm(answer, term);
}

function notSent(cause: unknown): StoreError {
  const message = cause instanceof StoreError ? cause.message : 'The claim was not sent in time';
  return new StoreError(message, { cause, applied: 'no' });
}
