import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { createLocks, memoryStore } from '../../../src/index.ts';
import { endProcesses, startScenario } from '../../support/process/start.ts';
import { later } from '../../support/waiting/eventually.ts';

/** A resource that refuses a fence below the greatest it has seen. */
function makeResource() {
  let latest = 0n;
  return (fence: bigint): 'accepted' | 'refused' => {
    if (fence < latest) return 'refused';
    latest = fence;
    return 'accepted';
  };
}

afterEach(endProcesses);

describe('a real process', () => {
  it('row 1, row 13: paused past its TTL, it has lost its hold, and its late write is refused', async () => {
    const store = memoryStore();
    const locks = createLocks(store);
    const write = makeResource();
    const holder = startScenario('pausedHolder', store);
    const { fence } = await holder.heard('held');
    expect(write(fence as bigint)).toBe('accepted');
    process.kill(holder.pid, 'SIGSTOP');
    const hold = await locks.mutex('lock').acquire({ waitMs: 20_000 });
    expect(hold.fence).toBeGreaterThan(fence as bigint);
    expect(write(hold.fence)).toBe('accepted');
    await hold.release();
    await sleep(300);
    process.kill(holder.pid, 'SIGCONT');
    holder.tell('write');
    const wrote = await holder.heard('wrote');
    expect(wrote).toMatchObject({ checked: 'expired', extended: 'HOLD_LOST', aborted: true });
    expect(write(wrote.fence as bigint)).toBe('refused');
    expect(await store.read('lock'), 'extending did not take it again').toEqual([]);
    holder.child.kill('SIGKILL');
  });

  it('row 2: paused with the grant in its receive buffer, it does not trust the late answer', async () => {
    const store = memoryStore();
    const locks = createLocks(store);
    let claims = 0;
    const stopped = withResolvers();
    const waiter = startScenario('pausedWaiter', store, (verb) => {
      if (verb !== 'claim' || claims++ > 0) return;
      process.kill(waiter.pid, 'SIGSTOP');
      stopped.resolve(undefined);
    });
    await stopped.promise;
    const hold = await locks.mutex('lock').acquire({ waitMs: 20_000 });
    process.kill(waiter.pid, 'SIGCONT');
    await sleep(500);
    hold.assertHeld();
    expect((await store.read('lock')).filter((claim) => claim.granted).map((claim) => claim.id)).toEqual([
      hold.id,
    ]);
    await hold.release();
    const held = await waiter.heard('held');
    expect(held.fence as bigint).toBeGreaterThan(hold.fence);
    expect(held.remainingMs).toBeGreaterThan(0);
    await waiter.heard('released');
    waiter.child.kill('SIGKILL');
  });

  it('row 3: blocked past the TTL, it has lost its hold before user code continues', async () => {
    const store = memoryStore();
    const holder = startScenario('stalledHolder', store);
    const stalled = await holder.heard('stalled');
    expect(stalled).toMatchObject({
      checked: 'expired',
      aborted: 'expired',
      remainingMs: 0,
      seenByNewListener: true,
    });
    holder.child.kill('SIGKILL');
  });

  it('row 6: killed, it is followed within its TTL and a second, with a greater fence', async () => {
    const store = memoryStore();
    const locks = createLocks(store);
    const gaps: number[] = [];
    for (let round = 0; round < 3; round += 1) {
      const holder = startScenario('holder', store);
      const { fence } = await holder.heard('held');
      const next = later(locks.mutex('lock').acquire({ waitMs: 20_000 }));
      holder.child.kill('SIGKILL');
      const startedAt = performance.now();
      const hold = await next;
      gaps.push(performance.now() - startedAt);
      expect(hold.fence).toBeGreaterThan(fence as bigint);
      await hold.release();
    }
    // On a busy machine one of them may take longer.
    expect(Math.min(...gaps)).toBeLessThan(800 + 1_000);
    expect(Math.max(...gaps)).toBeLessThan(10_000);
  });

  it('row 7: it ends as usual: by itself, by exit, by an uncaught error, by a signal', async () => {
    const store = memoryStore();
    for (const [scenario, expected] of [
      ['endsByItself', { code: 0, signal: null }],
      ['exits', { code: 3, signal: null }],
      ['throws', { code: 1, signal: null }],
    ] as const) {
      const ending = startScenario(scenario, store);
      const held = await ending.heard('held');
      expect(await ending.exited, scenario).toEqual(expected);
      await store.evict({ name: 'lock', id: held.id as string });
    }
    const terminated = startScenario('waitsToBeTerminated', store);
    expect((await terminated.heard('handlers')).added, 'no handlers are installed').toBe(0);
    terminated.child.kill('SIGTERM');
    expect(await terminated.exited).toEqual({ code: null, signal: 'SIGTERM' });
  });

  it('row 7: a pending acquire and a candidate keep it alive until they end', async () => {
    const store = memoryStore();
    const hold = await createLocks(store).mutex('lock').acquire();
    const waiter = startScenario('waits', store);
    await waiter.heard('waited');
    expect(await waiter.exited).toEqual({ code: 5, signal: null });
    await hold.release();
    const candidate = startScenario('stands', store);
    expect((await candidate.heard('leads')).isLeader).toBe(true);
    await candidate.heard('still alive');
    expect((await candidate.exited).code).toBe(0);
  });

  it('row 8: a hold cannot be copied to another process', async () => {
    const store = memoryStore();
    const hold = await createLocks(store).mutex('lock').acquire();
    const copycat = startScenario('copycat', store);
    expect((await copycat.heard('tried')).got).toBe(false);
    expect(() => copycat.child.send(hold as never)).toThrow(/could not be cloned/);
    copycat.child.kill('SIGKILL');
    await hold.release();
  });

  it('row 16: with every command failing, no rejection is unhandled', async () => {
    const store = memoryStore();
    let down = false;
    const holder = startScenario('surrounded', store, () => {
      if (down) throw new Error('the server is down');
    });
    await holder.heard('held');
    down = true;
    holder.tell('go');
    expect(await holder.heard('through')).toMatchObject({ waiting: 'aborted', how: 'expired' });
    expect((await holder.exited).code, holder.stderr()).toBe(0);
  });
});

function withResolvers(): { promise: Promise<unknown>; resolve(value: unknown): void } {
  let resolve: (value: unknown) => void = () => {};
  const promise = new Promise((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
