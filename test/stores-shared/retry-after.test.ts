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

describe('a waiter that becomes the first of its process', () => {
  const TAKE_OVER_MS = 5_000;
  const TTL_MS = 120_000;
  const FIRST = { name: 'a', id: 'first', ttlMs: TTL_MS };
  const SECOND = { name: 'a', id: 'second', ttlMs: TTL_MS };

  function twoWaiters() {
    const clock = virtualClock();
    const list = new WakeList(clock, exactly(TAKE_OVER_MS));
    let woken = 0;
    for (const claim of [FIRST, SECOND]) {
      list.add(claim, {
        wake: () => {
          if (claim === SECOND) woken += 1;
        },
      });
      list.enqueue(claim);
      list.setDue('a', TTL_MS);
    }
    return { clock, list, woken: () => woken };
  }

  it.each([
    ['was given up', (list: WakeList) => list.remove(FIRST)],
    [
      'was granted',
      (list: WakeList) => {
        list.setDue('a', TTL_MS);
        list.remove(FIRST);
      },
    ],
    [
      'got a pushed grant',
      (list: WakeList) => {
        const waiting = { ...FIRST, waiter: { wake: () => {} }, enteredAtMs: 0 };
        list.push(waiting, { fence: 1n, validForMs: 5_000 });
      },
    ],
  ])('asks soon after the first one %s, not after a whole TTL', async (_, leave) => {
    const { clock, list, woken } = twoWaiters();
    leave(list);
    await clock.advance(TAKE_OVER_MS - 1);
    expect(woken()).toBe(0);
    await clock.advance(1);
    expect(woken()).toBe(1);
  });

  it('asks when the hold ahead ends, if that is sooner', async () => {
    const { clock, list, woken } = twoWaiters();
    list.setDue('a', 700);
    list.remove(FIRST);
    await clock.advance(700);
    expect(woken()).toBe(1);
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
