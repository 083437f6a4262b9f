import { StoreError } from '../../errors.ts';
import { isStoreError, unknownOutcome } from '../../hold/command.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Store,
  StoredClaim,
  Traits,
  WatchTarget,
} from '../../store/store.ts';

/** A store that can say how many replicas have what it was last told. */
export interface Replicating extends Store {
  /** Resolves to how many replicas have everything that was written by us for this lock; waits for `count` of them, or for `limitMs`. */
  replicasWith(name: string, count: number, limitMs: number, signal?: AbortSignal): Promise<number>;
}

/** The replicas get this share of a time to live to confirm, within these bounds. */
const SHARE = 1 / 10;
const CONFIRM_MS = { min: 50, max: 1_000 };

/**
 * Grants and renewals count only once so many replicas have them. It makes rarer that a replica is promoted which does not know of a hold; it cannot make it
 * impossible, since nothing makes that very replica the one that is promoted.
 */
export class ReplicatedStore implements Store {
  readonly traits: Traits;
  readonly #store: Replicating;
  readonly #count: number;

  constructor(store: Replicating, count: number) {
    this.traits = store.traits;
    this.#store = store;
    this.#count = count;
  }

  /** A grant that too few replicas have is given back, and the claim rejects. */
  async claim(request: ClaimRequest, signal?: AbortSignal): Promise<ClaimOutcome> {
    const outcome = await this.#store.claim(request, signal);
    if (!outcome.granted) return outcome;
    try {
      await this.#confirm(request.name, request.ttlMs, signal);
    } catch (error) {
      if (!isStoreError(error)) throw error;
      await this.#giveBack(request, signal);
      throw new StoreError(`${error.message}; it was given back`, { cause: error, applied: 'no' });
    }
    return outcome;
  }

  /** Until it is known to be gone, nobody may say that there is nothing. */
  async #giveBack(request: ClaimRequest, signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#store.release(request, signal);
    } catch (error) {
      throw unknownOutcome('Redis: too few replicas had it, and it could not be given back', error);
    }
  }

  /** A renewal that too few replicas have may be forgotten by the next master: it is unknown, and the deadline stays where it was. */
  async renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    const outcome = await this.#store.renew(claim, change, signal);
    if (outcome.held) await this.#confirm(claim.name, change.ttlMs, signal);
    return outcome;
  }

  release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return this.#store.release(claim, signal);
  }

  evict(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return this.#store.evict(claim, signal);
  }

  watch(target: WatchTarget, wake: () => void): Promise<AsyncDisposable> {
    return this.#store.watch(target, wake);
  }

  read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]> {
    return this.#store.read(name, signal);
  }

  list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    return this.#store.list(prefix, signal);
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  async #confirm(name: string, ttlMs: number, signal: AbortSignal | undefined): Promise<void> {
    const limitMs = Math.ceil(Math.min(Math.max(ttlMs * SHARE, CONFIRM_MS.min), CONFIRM_MS.max));
    const reached = await this.#store.replicasWith(name, this.#count, limitMs, signal);
    if (reached >= this.#count) return;
    throw new StoreError(`Redis: only ${reached} of ${this.#count} replicas had it within ${limitMs} ms`, {
      applied: 'unknown',
    });
  }
}
