import { describe, expect, it } from 'vitest';
import { instant } from '../../src/store/validity.ts';
import { PushedGrantAge } from '../../src/stores/redis/pushed-grant-age.ts';
import { virtualClock } from '../../src/testing/index.ts';

describe('a pushed grant', () => {
  it('is valid by the clock of the server, and rather for too short than for too long', async () => {
    const clock = virtualClock();
    const server = new PushedGrantAge(clock);
    server.set(1_000_000, instant(clock));
    await clock.advance(500);
    const leftMs = server.untilMs(1_010_000);
    expect(leftMs).toBeLessThanOrEqual(9_500);
    expect(leftMs).toBeGreaterThan(9_400);
    await clock.advance(1_100);
    expect(server.untilMs(1_010_000)).toBeNull();
  });

  it('is not judged by the clock of another server, after the connection has moved', async () => {
    const clock = virtualClock();
    const server = new PushedGrantAge(clock);
    const sentAt = instant(clock);
    await clock.advance(100);
    server.forget();
    // The reply of the old server, whose clock is far behind.
    server.set(1_000, sentAt);
    expect(server.untilMs(1_010_000)).toBeNull();
    server.set(1_000_000, instant(clock));
    expect(server.untilMs(1_010_000)).toBeGreaterThan(9_900);
  });
});
