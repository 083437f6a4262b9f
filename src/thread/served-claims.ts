import { type Timer, threadClock } from '../clock.ts';
import type { ClaimOutcome, ClaimRef, ClaimRequest, Store } from '../store/store.ts';
import { instant } from '../store/validity.ts';
import { isUnknown } from '../util/error-code.ts';
import type { KeptHolds } from './kept-holds.ts';
import type { FromThread } from './messages.ts';
import type { SharedHeader } from './shared-slots.ts';

/** How often the event loop of the process is checked: this share of `withoutTurnMs`. */
const CHECK_SHARE = 1 / 10;
const CHECK_MIN_MS = 250;

/**
 * The claims that the thread has made for its process on a store with a session. They live as long
 * as the session, and the thread keeps that alive even when the event loop of the process hangs. A
 * claim that waits in a queue, or was granted without the process noticing, would then block the lock
 * for ever. So, without a turn of the event loop for `withoutTurnMs`, all of them are released.
 */
export class ServedClaims {
  readonly #store: Store;
  readonly #kept: KeptHolds;
  readonly #header: SharedHeader;
  readonly #withoutTurnMs: number;
  readonly #post: (message: FromThread) => void;
  readonly #claims = new Map<string, ClaimRef>();
  /** Ids of claims that the store has not answered yet. */
  readonly #pending = new Set<string>();
  #timer: Timer | null = null;

  constructor(
    store: Store,
    kept: KeptHolds,
    header: SharedHeader,
    withoutTurnMs: number,
    post: (message: FromThread) => void,
  ) {
    this.#store = store;
    this.#kept = kept;
    this.#header = header;
    this.#withoutTurnMs = withoutTurnMs;
    this.#post = post;
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
    const everyMs = Math.max(this.#withoutTurnMs * CHECK_SHARE, CHECK_MIN_MS);
    this.#timer ??= threadClock.startTimer(everyMs, () => {
      this.#timer = null;
      if (this.#claims.size === 0) return;
      this.#check();
      this.#checkLater();
    });
  }

  #check(): void {
    // To receive a message is a turn of the event loop of the process.
    this.#post({ kind: 'ping' });
    if (!this.#isHung()) return;
    // Before the event loop is checked again: a process that has a turn after that check reads this
    // before it trusts a grant.
    this.#header.setReleased(threadClock);
    if (!this.#isHung()) return;
    for (const claim of [...this.#claims.values()]) void this.#release(claim);
  }

  #isHung(): boolean {
    return this.#header.turnAgoMs(threadClock) > this.#withoutTurnMs;
  }

  async #release(claim: ClaimRef): Promise<void> {
    const { id } = claim;
    // A claim without an answer yet is released at a later check. A hold that the thread renews ends
    // when its renewals fail.
    if (this.#pending.has(id) || this.#kept.isKept(id)) return;
    try {
      await this.#store.release(claim);
      this.forget(id);
      this.#post({ kind: 'wake', id, grant: null, at: instant(threadClock) });
    } catch {
      // The next check repeats it.
    }
  }
}
