import { describe, expect, it } from 'vitest';
import { instant } from '../../src/hold/validity.ts';
import { ToldGrants } from '../../src/stores/redis/told-grants.ts';
import { virtualClock } from '../../src/testing/index.ts';

const request = {
  name: 'a',
  id: 'waiter',
  mode: { kind: 'exclusive' },
  ttlMs: 10_000,
  wait: true,
  note: '',
  fenceAbove: 0n,
} as const;

describe('a grant that came as a message', () => {
  it('is judged by the server’s clock, and counts for less than it could', async () => {
    const clock = virtualClock();
    const told = new ToldGrants(clock);
    told.setServerTime(1_000_000, instant(clock));
    await clock.advance(500);
    told.add('waiter', { fence: 7n, endsAtServerMs: 1_010_000 });
    const outcome = told.take(request);
    expect(outcome).toMatchObject({ granted: true, fence: 7n });
    expect(outcome).toHaveProperty('validForMs', expect.any(Number));
    expect((outcome as { validForMs: number }).validForMs).toBeLessThanOrEqual(9_500);
    expect(told.take(request)).toBeNull();
  });

  it('is not judged by the clock of a server that was asked before the connection moved', async () => {
    const clock = virtualClock();
    const told = new ToldGrants(clock);
    const sentAt = instant(clock);
    await clock.advance(100);
    told.forget();
    // The old server's answer, with a clock that is far behind.
    told.setServerTime(1_000, sentAt);
    told.add('waiter', { fence: 7n, endsAtServerMs: 1_010_000 });
    expect(told.take(request)).toBeNull();
    told.setServerTime(1_000_000, instant(clock));
    told.add('waiter', { fence: 7n, endsAtServerMs: 1_010_000 });
    expect(told.take(request)).toMatchObject({ granted: true, fence: 7n });
  });
});
