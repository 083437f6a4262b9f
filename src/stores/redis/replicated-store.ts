import { StoreError } from '../../errors.ts';
import { type DiagnoseContext, type Finding, fail, ok, runCheck, type Verdict } from '../../store/finding.ts';
import { CONNECT_NAME } from '../../store/first-answer.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Store,
  Waiter,
} from '../../store/store.ts';
import { WrappedStore } from '../../store/wrapped-store.ts';
import { isStoreError, unknownOutcome } from '../../util/error-code.ts';

export interface Replicating extends Store {
  /** How many replicas have our writes for this lock. Waits for `count`, for up to `limitMs`. */
  replicasWith(name: string, count: number, limitMs: number, signal?: AbortSignal): Promise<number>;
}

/** The replicas have this share of the TTL to confirm, within these bounds. */
const SHARE = 1 / 10;
const CONFIRM_MS = { min: 50, max: 1_000 };

/**
 * A grant or a renewal counts only when enough replicas have it. A promoted replica may still not
 * know of a hold, since any replica may be promoted.
 */
export class ReplicatedStore extends WrappedStore<Replicating> {
  readonly #count: number;

  constructor(store: Replicating, count: number) {
    super(store);
    this.#count = count;
  }

  /** A grant that too few replicas have is given back, and the claim rejects. */
  override async claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    const outcome = await super.claim(request, signal, waiter);
    if (!outcome.granted) return outcome;
    try {
      await this.#confirm(request.name, request.ttlMs, signal);
    } catch (error) {
      if (!isStoreError(error)) throw error;
      await super.release(request, signal).catch((failure: unknown) => {
        throw unknownOutcome('Redis: too few replicas had it, and it could not be given back', failure);
      });
      throw new StoreError(`${error.message}; it was given back`, { cause: error, applied: 'no' });
    }
    return outcome;
  }

  /** The outcome of a renewal that too few replicas have is unknown: the deadline stays. */
  override async renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    const outcome = await super.renew(claim, change, signal);
    if (outcome.held) await this.#confirm(claim.name, change.ttlMs, signal);
    return outcome;
  }

  override async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    const found = super.diagnose(context);
    const replicas = runCheck(context, 'redis-wait-replicas', () => this.#checkReplicas(context));
    return [...(await found), await replicas];
  }

  async #checkReplicas({ ttlMs, signal }: DiagnoseContext): Promise<Verdict> {
    const reached = await this.store.replicasWith(CONNECT_NAME, this.#count, confirmMs(ttlMs), signal);
    const found = `${reached} replicas confirm writes in time; waitReplicas is ${this.#count}`;
    if (reached >= this.#count) return ok(found, 'A grant counts only when a replica has it.');
    const advice = 'Bring the replicas back, or lower waitReplicas.';
    return fail(found, 'Every grant is given back: no lock can be acquired.', advice);
  }

  async #confirm(name: string, ttlMs: number, signal: AbortSignal | undefined): Promise<void> {
    const limitMs = confirmMs(ttlMs);
    const reached = await this.store.replicasWith(name, this.#count, limitMs, signal);
    if (reached >= this.#count) return;
    throw new StoreError(`Redis: only ${reached} of ${this.#count} replicas had it within ${limitMs} ms`, {
      applied: 'unknown',
    });
  }
}

function confirmMs(ttlMs: number): number {
  return Math.ceil(Math.min(Math.max(ttlMs * SHARE, CONFIRM_MS.min), CONFIRM_MS.max));
}
