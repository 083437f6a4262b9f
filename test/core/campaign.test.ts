import { describe, expect, it } from 'vitest';
import { HoldLostError } from '../../src/index.ts';
import { codeOf, makeWorld, outcomeOf } from '../support/world.ts';

describe('a candidate', () => {
  it('tells once that a term is over, also a handler that stops the candidate then', async () => {
    const { locks, clock } = makeWorld();
    const reasons: unknown[] = [];
    const candidate = locks()
      .election('e')
      .start({
        onLost: (reason) => {
          reasons.push(codeOf(reason));
          void candidate.stop();
        },
      });
    await clock.settle();
    expect(candidate.isLeader).toBe(true);
    await candidate.stop();
    expect(reasons).toEqual(['HOLD_LOST']);
  });

  it('is released once when its handler stops it then', async () => {
    const { faulty, clock } = makeWorld();
    const { locks, store } = faulty(() => null);
    const candidate = locks.election('e').start({ onLost: () => void candidate.stop() });
    await clock.settle();
    expect(await locks.releaseAll()).toBe(1);
    expect(store.calls.map((call) => call.verb)).toEqual(['claim', 'release']);
  });

  it('resigns when its handler throws, also when that is the loss of another lock', async () => {
    const { locks, clock } = makeWorld();
    const reasons: Error[] = [];
    const candidate = locks()
      .election('boss')
      .start({
        onElected: () => Promise.reject(new HoldLostError('other', 1n, 'taken')),
        onLost: (reason) => void reasons.push(reason),
      });
    await clock.settle();
    const rival = locks().election('boss').start();
    await clock.advance(60_000);
    expect([candidate.isLeader, rival.isLeader]).toEqual([false, true]);
    expect(reasons).toMatchObject([{ lock: 'other' }]);
    await Promise.all([candidate.stop(), rival.stop()]);
  });

  it('stands again when its term was released under it, and ends when stopped', async () => {
    const { locks, clock } = makeWorld();
    const one = locks();
    let elected = 0;
    const candidate = one.election('boss').start({
      onElected: () => {
        elected += 1;
      },
    });
    await clock.settle();
    await one.releaseAll();
    await clock.advance(1_000);
    expect([elected, candidate.isLeader]).toEqual([2, true]);
    await candidate.stop();
    await clock.advance(10_000);
    expect(clock.timers).toBe(0);
  });

  it('that is stopped between the grant and the term does not begin it', async () => {
    const { locks, clock, store } = makeWorld();
    const one = locks();
    let elected = 0;
    let stopped: { state: string } = { state: 'not called' };
    const candidate = one.election('boss').start({
      onElected: () => {
        elected += 1;
      },
    });
    one.on('leader', () => {
      stopped = outcomeOf(candidate.stop());
    });
    await clock.advance(1_000);
    expect([stopped.state, elected]).toEqual(['kept', 0]);
    expect(await store.read('boss')).toEqual([]);
  });

  it('whose handler throws is told of by a warning when there is no onLost', async () => {
    const { locks, clock } = makeWorld();
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on('warning', onWarning);
    const thrower = (what: string) => () => Promise.reject(new Error(what));
    const untold = locks()
      .election('a')
      .start({ onElected: thrower('untold') });
    const told = locks()
      .election('b')
      .start({ onElected: thrower('told'), onLost: () => {} });
    const lost = locks()
      .election('c')
      .start({
        // The end of its work after a loss, of which its signal has told it.
        onElected: (term) => new Promise((_, reject) => term.signal.addEventListener('abort', reject)),
      });
    await clock.settle();
    await Promise.all([untold.stop(), told.stop(), lost.stop()]);
    await clock.settle();
    process.off('warning', onWarning);
    expect(warnings).toMatchObject([
      { code: 'HOLDFAST_LISTENER', message: 'A holdfast listener for onElected threw: Error: untold' },
    ]);
  });

  it('stops at once, also while it waits to stand again', async () => {
    const { locks, clock } = makeWorld();
    const candidate = locks()
      .election('boss')
      .start({
        onElected: () => {
          throw new Error('never');
        },
      });
    await clock.settle();
    const stopped = outcomeOf(candidate.stop());
    await clock.settle();
    expect(stopped.state).toBe('kept');
  });

  it('is not made with a signal that is aborted, and many share one signal', async () => {
    const { locks, clock } = makeWorld();
    expect(() =>
      locks()
        .election('boss', { signal: AbortSignal.abort('no') })
        .start(),
    ).toThrow('no');
    const warnings: unknown[] = [];
    const onWarning = (warning: Error): void =>
      void (warning.name === 'MaxListenersExceededWarning' && warnings.push(warning));
    process.on('warning', onWarning);
    const controller = new AbortController();
    const many = Array.from({ length: 20 }, (_, n) =>
      locks().election(`boss ${n}`, { signal: controller.signal }).start(),
    );
    await clock.settle();
    controller.abort();
    await clock.settle();
    await new Promise(setImmediate);
    process.off('warning', onWarning);
    expect(warnings).toEqual([]);
    expect(many.some((candidate) => candidate.isLeader)).toBe(false);
  });

  it('does not begin a second term before the first has ended', async () => {
    const { locks, clock, store } = makeWorld();
    let running = 0;
    let most = 0;
    const candidate = locks()
      .election('boss', { ttlMs: 3_000 })
      .start({
        onElected: async () => {
          running += 1;
          most = Math.max(most, running);
          await new Promise<void>((resolve) => void clock.startTimer(8_000, resolve));
          running -= 1;
        },
      });
    await clock.settle();
    for (let round = 0; round < 5; round += 1) {
      const [claim] = await store.read('boss');
      if (claim !== undefined) await store.evict({ name: 'boss', id: claim.id });
      await clock.advance(4_000);
    }
    expect(most).toBe(1);
    await candidate.stop();
  });

  it('may have an asynchronous onLost that fails, and nothing goes unhandled', async () => {
    const { locks, clock } = makeWorld();
    const unhandled: unknown[] = [];
    const onUnhandled = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', onUnhandled);
    const candidate = locks()
      .election('boss')
      .start({ onLost: (async () => Promise.reject(new Error('late'))) as () => void });
    await clock.settle();
    await candidate.stop();
    await clock.settle();
    process.off('unhandledRejection', onUnhandled);
    expect(unhandled).toEqual([]);
  });
});

describe('lead', () => {
  it('ends when it is aborted between the grant and the term', async () => {
    const { locks, clock, store } = makeWorld();
    const one = locks();
    const controller = new AbortController();
    one.on('leader', () => controller.abort('enough'));
    let began = false;
    const led = outcomeOf(
      one.election('boss').lead(
        async () => {
          began = true;
        },
        { signal: controller.signal },
      ),
    );
    await clock.advance(1_000);
    expect([led.error, began]).toEqual(['enough', false]);
    expect(await store.read('boss')).toEqual([]);
  });

  it('throws what the function throws, also when that has released the term before', async () => {
    const { locks, clock } = makeWorld();
    let runs = 0;
    const led = outcomeOf(
      locks()
        .election('boss')
        .lead(async (term) => {
          runs += 1;
          await term.release();
          throw new Error('broken');
        }),
    );
    await clock.advance(1_000);
    expect([led.state, runs]).toEqual(['broken', 1]);
  });
});

describe('observe', () => {
  it('begins although the listening never answers', async () => {
    const { faulty, clock } = makeWorld();
    const { locks } = faulty((call) => (call.verb === 'watch' ? 'hang' : null));
    const seen = outcomeOf(locks.election('boss').observe()[Symbol.asyncIterator]().next());
    await clock.advance(10_000);
    expect(seen.value).toEqual({ done: false, value: null });
  });
});
