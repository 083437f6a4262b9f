import { describe, expect, it } from 'vitest';
import { ClosedError, createLocks, type LocksOptions, StoreError } from '../../src/index.ts';
import type { StoreCall, StoreVerb, VirtualClock } from '../../src/testing/index.ts';
import { connectionTo } from '../support/memory/memory-connection.ts';
import { makeWorld, outcomeOf } from '../support/memory/world.ts';

/** A world whose store can be made to stop answering these calls. */
function makeQuietable(verbs: readonly StoreVerb[], options: LocksOptions = {}) {
  const { faulty, clock } = makeWorld();
  let isSilent = false;
  const { locks, store } = faulty(
    ({ verb }: StoreCall) => (isSilent && verbs.includes(verb) ? 'hang' : null),
    options,
  );
  const fallSilent = (): void => {
    isSilent = true;
  };
  return { clock, locks, store, fallSilent };
}

/** How long it took, in virtual time. */
async function settles(clock: VirtualClock, work: Promise<unknown>) {
  const startedMs = clock.monotonicMs();
  const outcome = outcomeOf(work);
  while (outcome.state === 'pending' && clock.monotonicMs() - startedMs < 120_000) await clock.advance(10);
  return { ...outcome, tookMs: clock.monotonicMs() - startedMs };
}

describe('a store that falls silent', () => {
  it('makes a release reject after about five seconds and more than one try', async () => {
    const { clock, locks, store, fallSilent } = makeQuietable(['release']);
    const hold = await locks.mutex('a').acquire();
    fallSilent();
    const { error, tookMs } = await settles(clock, hold.release());
    expect(error).toMatchObject({ code: 'STORE', applied: 'unknown' });
    expect(tookMs).toBeGreaterThanOrEqual(4_000);
    expect(tookMs).toBeLessThanOrEqual(5_500);
    expect(store.calls.filter(({ verb }) => verb === 'release').length).toBeGreaterThan(2);
  });

  it('does not delay the value or the error of a run for longer', async () => {
    const { clock, locks, fallSilent } = makeQuietable(['release']);
    const kept = await settles(
      clock,
      locks.withLock('a', () => {
        fallSilent();
        return 7;
      }),
    );
    expect(kept).toMatchObject({ state: 'kept', value: 7 });
    expect(kept.tookMs).toBeLessThanOrEqual(5_500);
    const broken = await settles(
      clock,
      locks.withLock('b', () => Promise.reject(new TypeError('mine'))),
    );
    expect(broken.error).toMatchObject({ message: 'mine', releaseError: { code: 'STORE' } });
    expect(broken.tookMs).toBeLessThanOrEqual(5_500);
  });

  it('delays a close by about ten seconds beside the drain, with any holds and waits', async () => {
    const { clock, locks, fallSilent } = makeQuietable(['claim', 'renew', 'release', 'watch', 'read'], {
      ttlMs: 60_000,
    });
    for (const name of ['a', 'b', 'c']) await locks.mutex(name).acquire();
    const candidate = locks.election('e').start();
    await clock.settle();
    expect(candidate.isLeader).toBe(true);
    fallSilent();
    const waiting = outcomeOf(locks.mutex('a').acquire({ waitMs: 60_000 }));
    await clock.advance(100);
    const { state, tookMs } = await settles(clock, locks.close({ drainMs: 1_000 }));
    expect(state).toBe('kept');
    expect(waiting.error).toMatchObject({ code: 'CLOSED' });
    expect(tookMs).toBeLessThanOrEqual(1_000 + 11_000);
  });

  it('is reported with the time limit of the command, not with that of another command', async () => {
    const { clock, locks, fallSilent } = makeQuietable(['claim', 'read']);
    fallSilent();
    const inspecting = settles(clock, locks.inspect('a'));
    await clock.advance(3_000);
    const acquiring = await settles(clock, locks.mutex('a').acquire({ waitMs: 2_000 }));
    expect((await inspecting).error).toMatchObject({ message: 'The store did not answer within 5000 ms' });
    expect(acquiring.error).toMatchObject({ message: 'The store did not answer within 2000 ms' });
  });

  it('has its whole time limit to answer one try, however short the waits of the Locks are', async () => {
    const { clock, locks, fallSilent } = makeQuietable(['claim'], { waitMs: 200 });
    fallSilent();
    const tried = await settles(clock, locks.mutex('a').tryAcquire());
    expect(tried.error).toMatchObject({ message: 'The store did not answer within 5000 ms' });
  });

  it('gives the reason of the time-out when it knows one', async () => {
    const { clock, store } = makeWorld();
    const cause = new Error('connect ECONNREFUSED 127.0.0.1:6379');
    const failure = new StoreError('not sent: connect ECONNREFUSED', { applied: 'no', cause });
    const known = connectionTo(store);
    known.claim = (_request, signal) =>
      new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(failure)));
    const locks = createLocks(known, { clock });
    const tried = await settles(clock, locks.mutex('a').tryAcquire());
    expect(tried.error).toBe(failure);
    expect(tried.tookMs).toBeLessThan(5_500);
    expect((await settles(clock, locks.mutex('a').acquire({ waitMs: 2_000 }))).error).toBe(failure);
    // Nothing was done, so nothing is left to remove, and closing has nothing to wait for.
    expect((await settles(clock, locks.close())).tookMs).toBeLessThan(100);
  });

  it('is not asked again once its client has been closed, and close does not wait for it', async () => {
    const { clock, store } = makeWorld();
    const failure = new StoreError('not sent', {
      applied: 'no',
      cause: new ClosedError('closed by its owner'),
    });
    const ended = connectionTo(store);
    const locks = createLocks(ended, { clock });
    const failures: unknown[] = [];
    locks.on('releaseFailed', ({ error }) => failures.push(error));
    await locks.mutex('a').acquire();
    const hold = await locks.mutex('b').acquire();
    ended.release = () => Promise.reject(failure);
    const released = await settles(clock, hold.release());
    expect(released.error).toBe(failure);
    expect(released.tookMs).toBeLessThan(100);
    const kept = await settles(
      clock,
      locks.withLock('c', () => 7),
    );
    expect(kept.value).toBe(7);
    expect(kept.tookMs).toBeLessThan(100);
    expect((await settles(clock, locks.close({ drainMs: 0 }))).tookMs).toBeLessThan(100);
    expect(failures).toEqual([failure, failure, failure]);
  });
});
