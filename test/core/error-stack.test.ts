import { describe, expect, it } from 'vitest';
import { createLocks, type Locks, memoryStore } from '../../src/index.ts';
import { makeWorld, outcomeOf } from '../support/memory/world.ts';

const WAIT = { waitMs: 20 };

async function callerOfAcquire(locks: Locks): Promise<void> {
  await locks.mutex('a').acquire(WAIT);
}

async function callerOfRun(locks: Locks): Promise<void> {
  await locks.mutex('a').run(() => {}, WAIT);
}

async function callerOfWithLock(locks: Locks): Promise<void> {
  await locks.withLock('a', () => {}, WAIT);
}

async function callerOfReentrant(locks: Locks): Promise<void> {
  await locks.withLock('a', () => {}, { ...WAIT, reentrant: true });
}

async function callerOfAll(locks: Locks): Promise<void> {
  await locks.all(['b', 'a']).acquire(WAIT);
}

async function callerOfOneTry(locks: Locks): Promise<void> {
  await locks.mutex('a').acquire({ waitMs: 0 });
}

const CALLERS = [
  callerOfAcquire,
  callerOfRun,
  callerOfWithLock,
  callerOfReentrant,
  callerOfAll,
  callerOfOneTry,
].map((caller) => [caller.name, caller] as const);

describe('the stack of a time-out', () => {
  it.each(CALLERS)('names the %s, in real time', async (name, caller) => {
    await using locks = createLocks(memoryStore());
    await using _hold = await locks.mutex('a').acquire();
    const error = await caller(locks).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'ACQUIRE_TIMEOUT', stack: expect.stringContaining(name) });
  });

  it.each(CALLERS)('names the %s, in virtual time', async (name, caller) => {
    const { locks, clock } = makeWorld();
    await locks().mutex('a').acquire();
    const waiting = outcomeOf(caller(locks()));
    await clock.advance(1_000);
    expect(waiting.error).toMatchObject({
      code: 'ACQUIRE_TIMEOUT',
      stack: expect.stringContaining(name),
    });
  });

  it('names the caller also when the store cannot name the holder', async () => {
    const { locks, faulty, clock } = makeWorld();
    await locks().mutex('a').acquire();
    const { locks: other } = faulty((call) => (call.verb === 'read' ? 'fail' : null));
    const waiting = outcomeOf(callerOfWithLock(other));
    await clock.advance(1_000);
    expect(waiting.error).toMatchObject({ holders: [], stack: expect.stringContaining('callerOfWithLock') });
  });
});
