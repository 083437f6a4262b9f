import { checkDuration } from '../checks.ts';
import type { Core } from '../core.ts';
import type { Grant } from './grant.ts';

/** A granted claim in its owner's hands. */
export interface Hold extends AsyncDisposable {
  readonly name: string;
  /** The claim's id, unique for ever. */
  readonly id: string;
  /** Strictly greater than that of every earlier hold of the same lock. Give it to a gate only from an exclusive hold. */
  readonly fence: bigint;
  /** Aborts, with a `HoldLostError`, the moment the hold can no longer be trusted. A normal release does not abort it. */
  readonly signal: AbortSignal;
  /** How long it can still be trusted without another renewal, by the local clocks; 0 once lost or released. */
  readonly remainingMs: number;
  /** Throws `HoldLostError` unless the hold can be trusted at this very instant. Asks the clocks, not the store. */
  assertHeld(): void;
  /**
   * Renews now, and from now on for `ttlMs` at a time (by default as before). Rejects with `HoldLostError` when it is lost, and with a
   * `StoreError` when the store did not confirm it; the hold then stands for `remainingMs`.
   */
  extend(ttlMs?: number): Promise<void>;
  /**
   * True when this call gave it up; false when it was already gone. Rejects with a `StoreError` when the store did not say within about 5 s of
   * trying; it is then tried on in the background until the lease must have run out, and the call may be repeated.
   */
  release(): Promise<boolean>;
}

/** A hold is bound to the process that took it: it can be shown in JSON, but neither cloned to a thread nor made again from an id. */
function toJSON(this: Hold): object {
  return {
    name: this.name,
    id: this.id,
    fence: this.fence.toString(),
    remainingMs: Math.floor(this.remainingMs),
  };
}

/** What `console.log` asks for. */
export const INSPECT: unique symbol = Symbol.for('nodejs.util.inspect.custom');

export class GrantHold implements Hold {
  readonly #core: Core;
  readonly #grant: Grant;
  /** An own function property: `structuredClone` and `postMessage` then refuse instead of making a copy that holds nothing. */
  readonly toJSON: () => object = toJSON;

  constructor(core: Core, grant: Grant) {
    this.#core = core;
    this.#grant = grant;
  }

  get name(): string {
    return this.#grant.ref.name;
  }

  get id(): string {
    return this.#grant.ref.id;
  }

  get fence(): bigint {
    return this.#grant.fence;
  }

  get signal(): AbortSignal {
    return this.#grant.signal;
  }

  get remainingMs(): number {
    return this.#grant.remainingMs();
  }

  [INSPECT](): object {
    return this.toJSON();
  }

  assertHeld(): void {
    this.#grant.assertHeld();
  }

  async extend(ttlMs: number = this.#grant.ttlMs): Promise<void> {
    checkDuration('ttlMs', ttlMs);
    await this.#core.keepalive.extend(this.#grant, ttlMs);
  }

  release(): Promise<boolean> {
    return this.#grant.release();
  }

  /** Another hold on the same claim, for code that runs inside this one. Giving it up leaves the claim where it is. */
  again(make: (core: Core, grant: Grant) => GrantHold): GrantHold {
    return make(this.#core, this.#grant);
  }

  /** Never rejects: a failed release is an event, and the lease runs out. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => {});
  }
}

export function holdOn(core: Core, grant: Grant): GrantHold {
  return new GrantHold(core, grant);
}
