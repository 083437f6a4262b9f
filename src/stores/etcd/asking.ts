import { StoreError } from '../../errors.ts';
import { type Instant, instant } from '../../hold/validity.ts';
import type { ClaimOutcome, ClaimRequest } from '../../store/store.ts';
import { Turns } from '../turns.ts';
import { isLeaseGone } from './calls.ts';
import { Claim } from './claim.ts';
import { fenceTooLow } from './entrance.ts';
import { type Place, secondsFor } from './lease-pool.ts';
import type { Parts } from './parts.ts';

/** A place in line lives at least this long: a short stall of a waiter must not cost its place. */
const PLACE_MS = 10_000;
/** How soon a waiter asks again while nothing would wake it. */
const POLL_MS = 1_000;
const ASK_AGAIN_MAX_MS = 10_000;
const TRIES = 3;

/** `claim`: entering the line, asking again, and finding out what became of a request whose answer was lost. */
export class Asking {
  readonly #parts: Parts;
  /** One request at a time for each claim. */
  readonly #underWay = new Turns();
  /** The last that enters each line: those of one process stand in it in the order in which they asked. */
  readonly #entering = new Turns();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async claim(request: ClaimRequest, signal: AbortSignal | undefined): Promise<ClaimOutcome> {
    const sent = instant(this.#parts.clock);
    return await this.#underWay.run(`${request.name}\n${request.id}`, () =>
      this.#claim(request, sent, signal),
    );
  }

  async #claim(request: ClaimRequest, sent: Instant, signal: AbortSignal | undefined): Promise<ClaimOutcome> {
    const known = this.#parts.claims.get(request);
    if (known !== undefined && known.revision !== null) {
      const outcome = known.isGranted
        ? await this.#askAsHolder(known, request, sent)
        : await this.#askInLine(known, request, sent);
      if (outcome !== null) return outcome;
      this.#forget(known);
    }
    return request.wait ? await this.#inTurn(request, sent, signal) : await this.#enterAnew(request, sent);
  }

  async #inTurn(
    request: ClaimRequest,
    sent: Instant,
    signal: AbortSignal | undefined,
  ): Promise<ClaimOutcome> {
    return await this.#entering.run(request.name, async () => {
      if (signal?.aborted === true) throw new StoreError('The claim was not sent in time', { applied: 'no' });
      return await this.#enterAnew(request, sent);
    });
  }

  async #enterAnew(request: ClaimRequest, sent: Instant): Promise<ClaimOutcome> {
    for (let tries = 1; tries <= TRIES; tries += 1) {
      const outcome = await this.#enter(request, sent, tries === TRIES);
      if (outcome !== null) return outcome;
    }
    throw new StoreError('The claim was removed as soon as it was made', { applied: 'unknown' });
  }

  /** A new claim. `null`: its lease had ended or its key was removed at once, try again. */
  async #enter(request: ClaimRequest, sent: Instant, isLast: boolean): Promise<ClaimOutcome | null> {
    const { leases, keys, claims } = this.#parts;
    const place = await leases.forClaim(request.ttlMs);
    const lock = keys.lock(request.name);
    const claim = new Claim(request, request.mode, lock, lock.claim(request.id, request.mode), place.lease);
    const isRepeat = claims.get(request) !== undefined;
    claims.add(claim);
    claim.trust(sent);
    claim.isEntering = true;
    try {
      const outcome = await this.#entered(claim, request, place, sent, isRepeat);
      if (outcome === null) this.#forget(claim);
      return outcome;
    } catch (failure) {
      const error = failedEntry(claim, failure);
      // What is unknown stays known by its key, so that it can be released; whatever comes of it goes with the lease.
      if (error instanceof StoreError && error.applied === 'unknown') leases.taint(place.lease);
      else this.#forget(claim);
      if (!isLeaseGone(error) || isLast) throw error;
      leases.drop(place.lease);
      return null;
    } finally {
      claim.isEntering = false;
    }
  }

  async #entered(
    claim: Claim,
    request: ClaimRequest,
    place: Place,
    sent: Instant,
    isRepeat: boolean,
  ): Promise<ClaimOutcome | null> {
    const { entrance, keeper, waiters } = this.#parts;
    const entry = await entrance.enter(claim, request, isRepeat);
    if (entry.kind === 'refused') {
      this.#forget(claim);
      return { granted: false, retryAfterMs: null };
    }
    if (entry.kind === 'asked before') return await this.#askInLine(claim, request, sent);
    place.lease.see(entry.term);
    if (entry.verdict.granted) {
      await confirm(place, entry.term);
      return this.#grant(claim, sent);
    }
    waiters.aim(claim, entry.verdict.behind, entry.revision);
    const isMoved =
      placeMs(request) === request.ttlMs || (await keeper.extend(claim, { ttlMs: placeMs(request) }));
    return isMoved ? this.#refuse(claim, sent) : null;
  }

  /** `null`: it is gone. */
  async #askAsHolder(claim: Claim, request: ClaimRequest, sent: Instant): Promise<ClaimOutcome | null> {
    if (!(await this.#parts.keeper.extend(claim, { ttlMs: request.ttlMs }))) return null;
    return this.#grant(claim, sent);
  }

  /** Keeps the place in line and looks whether it is granted now. `null`: the place is gone, also when nobody is ahead. */
  async #askInLine(claim: Claim, request: ClaimRequest, sent: Instant): Promise<ClaimOutcome | null> {
    const { reader, keeper, waiters, entrance } = this.#parts;
    const revision = claim.revision;
    if (revision === null) return null;
    const [extended, looked] = await Promise.allSettled([
      isStale(claim, request, sent) ? keeper.extend(claim, { ttlMs: placeMs(request) }) : true,
      reader.look(claim, revision),
    ]);
    if (looked.status === 'rejected') throw looked.reason;
    const look = looked.value;
    if (!look.isThere || (extended.status === 'fulfilled' && !extended.value)) return null;
    if (look.revision < request.fenceAbove) throw fenceTooLow(look.revision, request.fenceAbove);
    if (!look.verdict.granted) {
      waiters.aim(claim, look.verdict.behind, look.revision);
      if (request.wait) return this.#refuse(claim, sent);
      await entrance.withdraw(claim);
      this.#forget(claim);
      return { granted: false, retryAfterMs: null };
    }
    // A hold lives as long as it was asked to, not as long as its place in line did.
    const isOwnTime = secondsFor(request.ttlMs) === claim.lease.seconds;
    if (!isOwnTime && !(await keeper.extend(claim, { ttlMs: request.ttlMs }))) return null;
    return this.#grant(claim, sent);
  }

  #grant(claim: Claim, sent: Instant): ClaimOutcome {
    const validForMs = claim.trust(sent);
    if (validForMs <= 0)
      throw new StoreError('The lease of the claim was not confirmed in time', { applied: 'unknown' });
    claim.isGranted = true;
    this.#parts.waiters.end(claim);
    return { granted: true, fence: claim.revision ?? 0n, validForMs };
  }

  #refuse(claim: Claim, sent: Instant): ClaimOutcome {
    const livesMs = claim.trust(sent);
    if (!this.#parts.waiters.isListening(claim)) return { granted: false, retryAfterMs: POLL_MS };
    return { granted: false, retryAfterMs: Math.max(Math.min(livesMs / 3, ASK_AGAIN_MAX_MS), 1) };
  }

  #forget(claim: Claim): void {
    this.#parts.claims.remove(claim);
    this.#parts.waiters.end(claim);
  }
}

/** A later step was refused for certain, but the claim stands: that is no "nothing happened" to whoever asked. */
function failedEntry({ mayStand }: Claim, error: unknown): unknown {
  if (!mayStand || !(error instanceof StoreError) || error.applied !== 'no') return error;
  return new StoreError(error.message, { cause: error.cause, applied: 'unknown' });
}

/** How long a place in line must live. */
const placeMs = (request: ClaimRequest): number => Math.max(request.ttlMs, PLACE_MS);

/** Would a grant now have less than the time that was asked for? */
function isStale(claim: Claim, request: ClaimRequest, sent: Instant): boolean {
  const { lease } = claim;
  const neededMs = secondsFor(request.ttlMs) === lease.seconds ? request.ttlMs : (lease.ttlMs * 2) / 3;
  return lease.validForMs(sent) < neededMs || !lease.canGoOn;
}

/** The lease was extended together with the claim. When that is not certain, it has what it had before. */
async function confirm({ lease, alive }: Place, term: number): Promise<void> {
  try {
    const answer = await alive;
    if (answer !== null) lease.confirm(answer, term);
  } catch {
    // The time that is left says enough.
  }
}
