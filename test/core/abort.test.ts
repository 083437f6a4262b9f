import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { pause } from '../../src/util/backoff.ts';
import { makeWorld, outcomeOf } from '../support/memory/world.ts';

describe('aborting a wait', () => {
  it('rejects at once with the reason, and leaves the queue', async () => {
    const { locks, clock, store } = makeWorld();
    const hold = await locks().mutex('a').acquire();
    const controller = new AbortController();
    const waiting = outcomeOf(locks().mutex('a').acquire({ signal: controller.signal }));
    await clock.settle();
    const reason = new Error('changed my mind');
    controller.abort(reason);
    await clock.settle();
    expect(waiting.error).toBe(reason);
    expect((await store.read('a')).map((claim) => claim.id)).toEqual([hold.id]);
  });

  it('rejects at once also while the store is asked for the holders, or for a finished once', async () => {
    const { locks, faulty, clock } = makeWorld();
    await locks().mutex('a').acquire();
    void locks().once('job', () => clock.sleep(60_000));
    await clock.settle();
    const { locks: own, store } = faulty(({ verb }) => (verb === 'read' ? 'hang' : null));
    const controller = new AbortController();
    const refused: unknown[] = [];
    own.on('refused', ({ why, error }) => refused.push([why, error]));
    const { signal } = controller;
    const waiting = [
      outcomeOf(own.mutex('a').acquire({ waitMs: 100, signal })),
      outcomeOf(own.once('job', () => {}, { waitMs: 10_000, signal })),
    ];
    await clock.advance(150);
    expect(store.calls.filter(({ verb }) => verb === 'read')).toHaveLength(2);
    controller.abort('stop');
    await clock.settle();
    expect(waiting).toMatchObject([{ error: 'stop' }, { error: 'stop' }]);
    expect(refused).toEqual([
      ['aborted', 'stop'],
      ['aborted', 'stop'],
    ]);
  });

  it('refuses a signal that is aborted already, before any I/O', async () => {
    const { faulty } = makeWorld();
    const { locks, store } = faulty(() => null);
    await expect(locks.mutex('a').acquire({ signal: AbortSignal.abort('no') })).rejects.toBe('no');
    expect(store.calls).toHaveLength(0);
  });

  it('does not affect a hold that was already granted', async () => {
    const { locks, clock } = makeWorld();
    const controller = new AbortController();
    const hold = await locks().mutex('a').acquire({ signal: controller.signal });
    controller.abort();
    await clock.settle();
    hold.assertHeld();
    expect(hold.signal.aborted).toBe(false);
  });

  it('uses one listener for a thousand waits, and removes it', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire();
    const controller = new AbortController();
    const waits = Array.from({ length: 1_000 }, () =>
      locks()
        .mutex('a')
        .acquire({ signal: controller.signal })
        .catch(() => {}),
    );
    await clock.settle();
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1);
    controller.abort();
    await Promise.all(waits);
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
    await hold.release();
  });

  it('has no listener left once the lock was granted', async () => {
    const { locks } = makeWorld();
    const { signal } = new AbortController();
    for (let n = 0; n < 3; n += 1) await locks().mutex(`lock ${n}`).acquire({ signal });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('ends a pause at once that begins after it', async () => {
    const { clock } = makeWorld();
    const over = outcomeOf(pause(clock, 60_000, { signal: AbortSignal.abort() }));
    await clock.settle();
    expect(over.state).toBe('kept');
    expect(clock.timers).toBe(0);
  });

  it('has no listener left after a pause', async () => {
    const { clock } = makeWorld();
    const { signal } = new AbortController();
    const over = pause(clock, 10, { signal });
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    await clock.advance(10);
    await over;
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });
});
