import { expect, it } from 'vitest';
import type { Clock, Timer } from '../../src/clock.ts';
import { createLocks, type Hold, type Locks, type Store } from '../../src/index.ts';
import { connectionTo } from '../support/memory/memory-connection.ts';
import { makeWorld, outcomeOf } from '../support/memory/world.ts';

/** The same clock, which also counts the timers that keep the process alive. */
function countingRefs(clock: Clock): { clock: Clock; refs: () => number } {
  const refs = new Set<Timer>();
  const counting: Clock = {
    monotonicMs: () => clock.monotonicMs(),
    wallMs: () => clock.wallMs(),
    random: () => clock.random(),
    startTimer: (ms, fire, options) => {
      const timer = clock.startTimer(ms, () => {
        refs.delete(timer);
        fire();
      });
      if (options?.keepAlive === true) refs.add(timer);
      return {
        cancel: () => {
          refs.delete(timer);
          timer.cancel();
        },
      };
    },
  };
  return { clock: counting, refs: () => refs.size };
}

const CALLS: Readonly<Record<string, (locks: Locks, hold: Hold) => Promise<unknown>>> = {
  acquire: (locks) => locks.mutex('a').acquire(),
  run: (locks) => locks.mutex('a').run(() => 1),
  tryAcquire: (locks) => locks.mutex('a').tryAcquire(),
  all: (locks) => locks.all(['a', 'b']).acquire(),
  lead: (locks) => locks.election('a').lead(async () => {}),
  once: (locks) => locks.once('a', () => 1),
  take: (locks) => locks.rateLimit('a', { permits: 1, perMs: 100 }).take(),
  tryTake: (locks) => locks.rateLimit('a', { permits: 1, perMs: 100 }).tryTake(),
  inspect: (locks) => locks.inspect('a'),
  evict: (locks, hold) => locks.evict('held', hold),
  extend: (_locks, hold) => hold.extend(),
  release: (_locks, hold) => hold.release(),
  close: (locks) => locks.close({ drainMs: 0 }),
};

it.each(Object.entries(CALLS))(
  '%s keeps the process alive while it is pending, and only then',
  async (_, call) => {
    const { clock: virtual, store } = makeWorld();
    const { clock, refs } = countingRefs(virtual);
    let answer = (): void => {};
    let answering = Promise.resolve();
    const slow = connectionTo(store);
    for (const verb of ['claim', 'renew', 'release', 'evict', 'read'] as const) {
      const send = slow[verb].bind(slow) as (...args: unknown[]) => Promise<unknown>;
      Object.assign(slow, {
        [verb]: (...args: unknown[]) => answering.then(() => send(...args)),
      } satisfies Partial<Record<keyof Store, unknown>>);
    }
    const locks = createLocks(slow, { clock });
    const hold = await locks.mutex('held').acquire();
    await virtual.advance(10);
    expect(refs()).toBe(0);
    answering = new Promise((resolve) => {
      answer = resolve;
    });
    const called = outcomeOf(call(locks, hold));
    await virtual.advance(1_000);
    expect(called.state).toBe('pending');
    expect(refs()).toBeGreaterThan(0);
    answer();
    await virtual.advance(2_000);
    expect(called.state).toBe('kept');
    expect(refs()).toBe(0);
  },
);
