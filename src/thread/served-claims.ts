import type { Clock, Timer } from '../clock.ts';
import type { ClaimOutcome, ClaimRef, ClaimRequest, Store } from '../store/store.ts';
import { isUnknown } from '../util/error-code.ts';
import type { SharedHeader } from './shared-slots.ts';

/** How often the event loop of the process is checked: this share of `withoutTurnMs`. */
const CHECK_SHARE = 1 / 10;
const CHECK_MIN_MS = 250;

export interface ServedClaimsOptions {
  readonly header: SharedHeader;
  readonly withoutTurnMs: number;
  /** Whether the claim is a hold that the thread renews. Such a hold ends when its renewals fail. */
  readonly isKept: (id: string) => boolean;
  /** Asks the process for a sign of life: each message gives its event loop a turn. */
  readonly ping: () => void;
  /** The claim was released. */
  readonly onReleased: (id: string) => void;
}

/**
 * The claims that the thread has made for its process on a store with a session. They live as long
 * as the session, and the thread keeps that alive even when the event loop of the process hangs. A
 * claim that waits in a queue, or was granted without the process noticing, would then block the lock
 * for ever. So, without a turn of the event loop for `withoutTurnMs`, all of them are released.
 */
export class ServedClaims {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #options: ServedClaimsOptions;
  readonly #claims = new Map<string, ClaimRef>();
  /** Ids of claims that the store has not answered yet. */
  readonly #pending = new Set<string>();
  #timer: Timer | null = null;

  constructor(store: Store, clock: Clock, options: ServedClaimsOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#options = options;
  }

  /** `send`: sends the request to the store. */
  async claim(request: ClaimRequest, send: () => Promise<ClaimOutcome>): Promise<ClaimOutcome> {
    const { name, id, wait } = request;
    const isNew = !this.#claims.has(id);
    this.#claims.set(id, { name, id });
    this.#pending.add(id);
    this.#checkLater();
    try {
      const outcome = await send();
      if (!outcome.granted && !wait) this.forget(id);
      return outcome;
    } catch (error) {
      if (isNew && !isUnknown(error)) this.forget(id);
      throw error;
    } finally {
      this.#pending.delete(id);
    }
  }

  /** The process releases the claim itself. */
  forget(id: string): void {
    this.#claims.delete(id);
  }

  #checkLater(): void {
    const everyMs = Math.max(this.#options.withoutTurnMs * CHECK_SHARE, CHECK_MIN_MS);
    this.#timer ??= this.#clock.startTimer(everyMs, () => {
      this.#timer = null;
      if (this.#claims.size === 0) return;
      this.#check();
      this.#checkLater();
    });
  }

  #check(): void {
    const { header, ping } = this.#options;
    ping();
    if (!this.#isHung()) return;
    // Before the event loop is checked again: a process that has a turn after that check reads this
    // before it trusts a grant.
    header.setReleased(this.#clock);
    if (!this.#isHung()) return;
    for (const claim of [...this.#claims.values()]) void this.#release(claim);
  }

  #isHung(): boolean {
    return this.#options.header.turnAgoMs(this.#clock) > this.#options.withoutTurnMs;
  }

  async #release(claim: ClaimRef): Promise<void> {
    const { isKept, onReleased } = this.#options;
    // A claim without an answer yet is released at a later check.
    if (this.#pending.has(claim.id) || isKept(claim.id)) return;
    try {
      await this.#store.release(claim);
      this.forget(claim.id);
      onReleased(claim.id);
    } catch {
      // The next check repeats it.
    }
  }
}
