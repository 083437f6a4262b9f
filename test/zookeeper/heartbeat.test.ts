import { describe, expect, it } from 'vitest';
import { instant } from '../../src/store/validity.ts';
import { Heartbeat } from '../../src/stores/zookeeper/heartbeat.ts';
import { virtualClock } from '../../src/testing/index.ts';

const TIMEOUT_MS = 3_000;

describe('row 56: how long a session is trusted', () => {
  const start = () => {
    const clock = virtualClock();
    const heartbeat = new Heartbeat(clock, { ask: async () => {}, dropConnection: () => {} });
    heartbeat.start(TIMEOUT_MS, instant(clock));
    heartbeat.onReply(instant(clock), true);
    const left = (): number => heartbeat.leftMs(instant(clock));
    return { clock, heartbeat, left };
  };

  it('reads do not extend it: a member that is cut off answers them too', async () => {
    const { clock, heartbeat, left } = start();
    for (let round = 0; round < 10; round += 1) {
      await clock.advance(250);
      heartbeat.onReply(instant(clock), false);
    }
    expect(left()).toBe(500);
  });

  it('a write confirms replies from a third of the time-out before its send, and no later ones', async () => {
    const { clock, heartbeat, left } = start();
    for (let round = 0; round < 8; round += 1) {
      await clock.advance(250);
      heartbeat.onReply(instant(clock), false);
    }
    // At 2,000 ms, all replies until 1,000 ms have reached the leader.
    heartbeat.onReply(instant(clock), true);
    expect(left()).toBe(2_000);
  });

  it('a write over a new connection confirms the session since the attempt to connect began', async () => {
    const { clock, heartbeat, left } = start();
    await clock.advance(2_000);
    const began = instant(clock);
    await clock.advance(500);
    heartbeat.start(TIMEOUT_MS, began);
    expect(left()).toBe(500);
    await clock.advance(10);
    heartbeat.onReply(instant(clock), true);
    expect(left()).toBe(2_490);
  });

  it('a reply to a request from before the new connection confirms nothing of it', async () => {
    const { clock, heartbeat, left } = start();
    const sent = instant(clock);
    await clock.advance(2_000);
    heartbeat.start(TIMEOUT_MS, instant(clock));
    heartbeat.onReply(sent, true);
    expect(left()).toBe(1_000);
  });

  it('a request that has waited for its turn has no less time than a request that is sent now', async () => {
    const { clock, heartbeat, left } = start();
    const early = instant(clock);
    for (let round = 0; round < 20; round += 1) {
      await clock.advance(250);
      heartbeat.onReply(instant(clock), true);
    }
    expect(left()).toBeGreaterThan(1_000);
    // The same end, counted from the earlier instant.
    expect(heartbeat.leftMs(early)).toBe(left() + 5_000);
  });

  it('a session without writes records a bounded number of replies', async () => {
    const { clock, heartbeat, left } = start();
    for (let round = 0; round < 500; round += 1) {
      await clock.advance(375);
      heartbeat.onReply(instant(clock), false);
    }
    expect(left()).toBeLessThan(0);
    heartbeat.onReply(instant(clock), true);
    expect(left()).toBeGreaterThanOrEqual(3_000 - 1_000 - 375);
  });
});
