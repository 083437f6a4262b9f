import type { Clock } from '../clock.ts';
import { StoreError } from '../errors.ts';
import type { ClaimRef, RenewChange, RenewOutcome, Store } from '../store/store.ts';
import { WrappedStore } from '../store/wrapped-store.ts';
import type { SharedHeader } from './shared-slots.ts';

/**
 * The store through which the thread renews. A process whose event loop hangs must not keep its
 * locks for ever, so renewals fail when the event loop has not turned for `withoutTurnMs`.
 */
export class LoopCheckingStore extends WrappedStore {
  readonly #clock: Clock;
  readonly #header: SharedHeader;
  readonly #withoutTurnMs: number;
  /** With the claim's id; includes renewals that the core no longer waits for. */
  readonly #pending = new Map<Promise<RenewOutcome>, string>();

  constructor(store: Store, clock: Clock, header: SharedHeader, withoutTurnMs: number) {
    super(store);
    this.#clock = clock;
    this.#header = header;
    this.#withoutTurnMs = withoutTurnMs;
  }

  override renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    const agoMs = this.#header.turnAgoMs(this.#clock);
    if (agoMs > this.#withoutTurnMs) {
      const seconds = Math.round(agoMs / 1_000);
      const message = `The event loop of this process has had no turn for ${seconds} s`;
      return Promise.reject(new StoreError(message, { applied: 'no' }));
    }
    const renewal = super.renew(claim, change, signal);
    this.#pending.set(renewal, claim.id);
    const settle = (): void => void this.#pending.delete(renewal);
    renewal.then(settle, settle);
    return renewal;
  }

  /** Resolves when the store has answered every renewal of the claim. */
  async renewalsOf(id: string): Promise<void> {
    await Promise.allSettled([...this.#pending].filter(([, of]) => of === id).map(([renewal]) => renewal));
  }
}
