import { describe, expect, it } from 'vitest';
import { retryAfterMs } from '../../src/stores/shared/retry-after.ts';
import { WakeList } from '../../src/stores/shared/wake-list.ts';
import { virtualClock } from '../../src/testing/index.ts';

const exactly = (ms: number) => ({ min: ms, max: ms });
const POLICY = {
  keepPositionMs: exactly(30_000),
  afterEndMs: exactly(10),
  firstLookMs: exactly(5_000),
  unsubscribedMs: exactly(500),
  foreignHeadMs: exactly(700),
  foreignMs: exactly(3_000),
};
const REFUSAL = { endsInMs: 120_000, isHead: false, isForeign: false };

describe('the first repeated claim of a waiter', () => {
  it('comes five seconds after it entered the queue, also if it asks again before that', async () => {
    const clock = virtualClock();
    const list = new WakeList(clock);
    const claim = { name: 'a', id: 'x', ttlMs: 120_000 };
    const refused = (): number => {
      list.add(claim, { wake: () => {} });
      const enteredAgoMs = list.enqueue(claim);
      return retryAfterMs(POLICY, clock, { ...REFUSAL, enteredAgoMs }, true).lookMs;
    };
    expect(refused()).toBe(5_000);
    await clock.advance(40);
    expect(refused()).toBe(4_960);
    await clock.advance(4_960);
    expect(refused()).toBe(120_010);
  });

  it('is not set for a claim that does not wait', () => {
    const clock = virtualClock();
    const list = new WakeList(clock);
    expect(list.enqueue({ name: 'a', id: 'x' })).toBeNull();
    expect(retryAfterMs(POLICY, clock, { ...REFUSAL, enteredAgoMs: null }, true).lookMs).toBe(120_010);
  });
});

describe('other repeated claims', () => {
  it.each([
    ['not subscribed', REFUSAL, false, 500],
    ['the holder is another program', { ...REFUSAL, isForeign: true }, true, 3_000],
    ['the same, first in the queue', { ...REFUSAL, isForeign: true, isHead: true }, true, 700],
    ['the hold ends soon', { ...REFUSAL, endsInMs: 50 }, true, 60],
  ] as const)('%s', (_, refusal, isSubscribed, lookMs) => {
    expect(retryAfterMs(POLICY, virtualClock(), refusal, isSubscribed).lookMs).toBe(lookMs);
  });
});
