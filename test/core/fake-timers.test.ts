import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createLocks, memoryStore } from '../../src/index.ts';

describe('with the fake timers of a test runner', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('"run all timers" ends while a hold that is not renewed is held', async () => {
    const locks = createLocks(memoryStore());
    const hold = await locks.mutex('a').acquire({ renew: false, ttlMs: 30_000 });
    await vi.runAllTimersAsync();
    expect(hold.remainingMs).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('"run all timers" needs few timers, however long the TTL of a hold that is not renewed', async () => {
    const locks = createLocks(memoryStore());
    const hold = await locks.mutex('a').acquire({ renew: false, ttlMs: 86_400_000 });
    const other = await locks.mutex('b').acquire({ ttlMs: 86_400_000 });
    await other.release();
    let timers = 0;
    for (; vi.getTimerCount() > 0 && timers < 1_000; timers += 1) await vi.advanceTimersToNextTimerAsync();
    // The loop limit of sinon is 1,000 timers.
    expect(timers).toBeLessThan(20);
    expect(hold.remainingMs).toBe(0);
  });

  it('"run all timers" ends when nothing is held', async () => {
    const locks = createLocks(memoryStore());
    await locks.withLock('a', () => {});
    await vi.runAllTimersAsync();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('a hold is lost when time is moved synchronously, past its TTL', async () => {
    const locks = createLocks(memoryStore());
    const hold = await locks.mutex('a').acquire({ ttlMs: 3_000 });
    vi.advanceTimersByTime(60_000);
    expect(hold.signal.aborted).toBe(true);
  });

  it('a hold is renewed while time is moved asynchronously', async () => {
    const locks = createLocks(memoryStore());
    const hold = await locks.mutex('a').acquire({ ttlMs: 3_000 });
    await vi.advanceTimersByTimeAsync(60_000);
    hold.assertHeld();
    expect(await hold.release()).toBe(true);
  });
});
