import { checkDuration } from '../checks.ts';
import type { Core } from '../core.ts';
import { usedName } from '../use.ts';
import type { JsonObject } from '../util/json.ts';
import { metadataIn } from '../view.ts';
import type { HeldClaim } from './held-claim.ts';

/** A granted claim, as its owner sees it. */
export interface Hold extends AsyncDisposable {
  readonly name: string;
  /** The claim's id, unique for ever. */
  readonly id: string;
  /** The owner of the Locks that acquired it. */
  readonly owner: string;
  readonly metadata: JsonObject | null;
  /** How long it has been held, or was held until it ended, by the local clock. */
  readonly heldForMs: number;
  /**
   * Strictly greater than that of every earlier hold of the same lock. Pass it to a fence gate only
   * from an exclusive hold.
   */
  readonly fence: bigint;
  /**
   * Aborts, with a `HoldLostError`, the moment the hold can no longer be trusted. A normal release
   * does not abort it.
   */
  readonly signal: AbortSignal;
  /**
   * How long the hold can still be trusted without another renewal, by the local clocks; 0 once
   * lost or released.
   */
  readonly remainingMs: number;
  /**
   * Throws `HoldLostError` unless the hold can be trusted at this very instant. Asks the clocks,
   * not the store.
   */
  assertHeld(): void;
  /**
   * Renews now, and from now on for `ttlMs` at a time (by default as before). Rejects with
   * `HoldLostError` when the hold is lost. Rejects with a `StoreError` when the store did not
   * confirm the renewal; the hold then lasts for `remainingMs`.
   */
  extend(ttlMs?: number): Promise<void>;
  /**
   * True when this call released the hold; false when it was already gone. Rejects with a
   * `StoreError` when the store did not confirm it within about 5 s; the release is then retried in
   * the background until the lease must have expired, and the call may be repeated.
   */
  release(): Promise<boolean>;
}

/**
 * A hold is bound to the process that acquired it: it can be converted to JSON, but neither cloned
 * to a thread nor recreated from an id.
 */
function toJSON(this: Hold): object {
  return {
    name: this.name,
    id: this.id,
    owner: this.owner,
    metadata: this.metadata,
    heldForMs: Math.floor(this.heldForMs),
    fence: this.fence.toString(),
    remainingMs: Math.floor(this.remainingMs),
  };
}

export const INSPECT: unique symbol = Symbol.for('nodejs.util.inspect.custom');

export class ClaimHold implements Hold {
  readonly #core: Core;
  readonly #held: HeldClaim;
  /**
   * An own function property: `structuredClone` and `postMessage` then refuse instead of making a
   * copy that holds nothing.
   */
  readonly toJSON: () => object = toJSON;

  constructor(core: Core, held: HeldClaim) {
    this.#core = core;
    this.#held = held;
  }

  get name(): string {
    return usedName(this.#held.ref.name).name;
  }

  get id(): string {
    return this.#held.ref.id;
  }

  get owner(): string {
    return this.#core.owner;
  }

  get metadata(): JsonObject | null {
    return metadataIn(this.#held.settings.note);
  }

  get heldForMs(): number {
    return this.#held.heldForMs;
  }

  get fence(): bigint {
    return this.#held.fence;
  }

  /** Checks the deadline: after a blocked event loop no timer has run yet that would abort it. */
  get signal(): AbortSignal {
    this.#held.checkDeadline();
    return this.#held.signal;
  }

  /** Checks the deadline: a late answer must not revive a hold that a user has seen as lost. */
  get remainingMs(): number {
    return this.#held.checkDeadline() ? this.#held.remainingMs : 0;
  }

  [INSPECT](): object {
    return this.toJSON();
  }

  assertHeld(): void {
    this.#held.assertHeld();
  }

  async extend(ttlMs: number = this.#held.ttlMs): Promise<void> {
    checkDuration('ttlMs', ttlMs);
    await this.#core.during(this.#core.renewals.extend(this.#held, ttlMs));
  }

  release(): Promise<boolean> {
    return this.#held.release();
  }

  /** For `reentrancy.ts`. Static, because users would see a property. */
  static heldOf(hold: ClaimHold): HeldClaim {
    return hold.#held;
  }

  /** Never rejects: a failed release is an event, and the lease expires. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => {});
  }
}
