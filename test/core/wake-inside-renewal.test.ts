import { describe, expect, it } from 'vitest';
import { createLocks, memoryStore } from '../../src/index.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Waiter,
} from '../../src/store/store.ts';
import { WrappedStore } from '../../src/store/wrapped-store.ts';
import { virtualClock } from '../../src/testing/index.ts';

/** Wakes the holder while it renews: for a held claim that means "renew now". */
class WakingStore extends WrappedStore {
  #waiter: Waiter | undefined;
  renewals = 0;

  override claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    this.#waiter = waiter;
    return super.claim(request, signal, waiter);
  }

  override renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    this.renewals += 1;
    // Bounded, so that a second renewal fails this test and does not overflow the stack.
    if (this.renewals < 10) this.#waiter?.wake();
    return super.renew(claim, change, signal);
  }
}

describe('a store that wakes the holder inside renew', () => {
  it('gets one renewal, not another one inside the first', async () => {
    const clock = virtualClock();
    const store = new WakingStore(memoryStore({ clock }));
    const locks = createLocks(store, { clock });
    const hold = await locks.mutex('a').acquire({ ttlMs: 30_000 });
    await hold.extend();
    expect(store.renewals).toBe(1);
    await clock.advance(15_000);
    expect(store.renewals).toBe(2);
    hold.assertHeld();
    await hold.release();
  });
});
