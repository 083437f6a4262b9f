import { describe, expect, it } from 'vitest';
import { HoldLostError } from '../../src/index.ts';
import { codeOf, makeWorld, outcomeOf } from '../support/memory/world.ts';

describe('a candidate', () => {
  it('reports the end of a term once, also when the handler stops the candidate', async () => {
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

  it('releases its lock once when its handler stops it', async () => {
    const { faulty, clock } = makeWorld();
    const { locks, store } = faulty(() => null);
    const candidate = locks.election('e').start({ onLost: () => void candidate.stop() });
    await clock.settle();
    expect(await locks.releaseAll()).toBe(1);
    expect(store.calls.map((call) => call.verb)).toEqual(['claim', 'release']);
  });

  it('resigns when its handler throws, also the HoldLostError of another lock', async () => {
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

  it('stands again when its handler has released the term, and ends when stopped', async () => {
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

  it('that is stopped between the grant and the term does not begin the term', async () => {
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

  it('whose handler throws causes a process warning when there is no onLost', async () => {
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
      .start({ onElected: thrower('asked to end'), onLost: () => {} });
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

  it('is not made with an aborted signal, and many candidates share one signal', async () => {
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
    const stopped = candidate.stop();
    await clock.advance(10_000);
    await stopped;
  });

  /** A leader whose work ends `worksForMs` after it was asked to, and a second candidate. */
  async function standing(worksForMs: number) {
    const { locks, clock } = makeWorld();
    const history: string[] = [];
    const [mine, theirs] = [locks(), locks()];
    const first = mine.election('boss', { ttlMs: 1_000 }).start({
      onElected: async (term) => {
        await new Promise((resolve) => term.signal.addEventListener('abort', resolve));
        history.push('asked to end');
        await new Promise<void>((resolve) => void clock.startTimer(worksForMs, resolve));
        history.push('ended');
      },
    });
    await clock.settle();
    theirs.election('boss', { ttlMs: 1_000 }).start({ onElected: () => void history.push('next') });
    await clock.advance(10);
    return { clock, mine, first, history };
  }

  async function warningsDuring(work: () => Promise<void>): Promise<unknown[]> {
    const warnings: unknown[] = [];
    const onWarning = (warning: Error & { code?: string }): void => void warnings.push(warning.code);
    process.on('warning', onWarning);
    await work();
    await new Promise(setImmediate);
    process.off('warning', onWarning);
    return warnings;
  }

  it.each([
    ['stop', ({ first }: Awaited<ReturnType<typeof standing>>) => first.stop()],
    ['close', ({ mine }: Awaited<ReturnType<typeof standing>>) => mine.close()],
  ])(
    'that is stopped releases the lock only after its work has ended, and renews it meanwhile: %s',
    async (_, end) => {
      const stage = await standing(8_000);
      const warnings = await warningsDuring(async () => {
        const ended = outcomeOf(end(stage));
        await stage.clock.advance(7_900);
        expect(stage.history).toEqual(['asked to end']);
        expect(stage.first.isLeader).toBe(false);
        expect(ended.state).toBe('pending');
        await stage.clock.advance(200);
        expect(stage.history).toEqual(['asked to end', 'ended', 'next']);
        expect(ended.state).toBe('kept');
      });
      expect(warnings).toEqual([]);
    },
  );

  /** `end` has a `drainMs` of 2 s, which is shorter than the work: there is one warning. */
  async function expectHandoffAfterTwoSeconds(
    stage: Awaited<ReturnType<typeof standing>>,
    end: () => Promise<void>,
  ): Promise<void> {
    const warnings = await warningsDuring(async () => {
      const ended = outcomeOf(end());
      await stage.clock.advance(1_900);
      expect(stage.history).toEqual(['asked to end']);
      await stage.clock.advance(1_200);
      expect(stage.history).toEqual(['asked to end', 'next']);
      expect(ended.state).toBe('kept');
    });
    expect(warnings).toEqual(['HOLDFAST_DRAIN']);
  }

  it.each([
    ['stop', ({ first }: Awaited<ReturnType<typeof standing>>) => first.stop({ drainMs: 2_000 })],
    ['close', ({ mine }: Awaited<ReturnType<typeof standing>>) => mine.close({ drainMs: 2_000 })],
  ])('that works longer than drainMs hands off with a warning: %s', async (_, end) => {
    const stage = await standing(60_000);
    await expectHandoffAfterTwoSeconds(stage, () => end(stage));
  });

  it.each([
    [
      'stop, then close',
      (stage: Awaited<ReturnType<typeof standing>>) => {
        void stage.first.stop({ drainMs: 60_000 });
        return stage.mine.close({ drainMs: 2_000 });
      },
    ],
    [
      'close, then stop',
      (stage: Awaited<ReturnType<typeof standing>>) => {
        void stage.mine.close({ drainMs: 60_000 });
        return stage.first.stop({ drainMs: 2_000 });
      },
    ],
  ])('that is stopped twice hands off after the shorter drainMs, with one warning: %s', async (_, end) => {
    const stage = await standing(70_000);
    await expectHandoffAfterTwoSeconds(stage, () => end(stage));
    expect(await warningsDuring(() => stage.clock.advance(70_000))).toEqual([]);
  });

  it('accepts a drainMs of at least 0', async () => {
    const { first } = await standing(1);
    await expect(first.stop({ drainMs: -1 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  it('may have an asynchronous onLost that rejects, without an unhandled rejection', async () => {
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

  it('rejects with the error of the function, also when it has released the term', async () => {
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

describe('lead, when its Locks closes', () => {
  it('releases the lock only after the function has ended', async () => {
    const { locks, clock } = makeWorld();
    const [mine, theirs] = [locks(), locks()];
    const history: string[] = [];
    const led = outcomeOf(
      mine.election('boss', { ttlMs: 1_000 }).lead(async (term) => {
        await new Promise((resolve) => term.signal.addEventListener('abort', resolve));
        await new Promise<void>((resolve) => void clock.startTimer(5_000, resolve));
        history.push('ended');
      }),
    );
    await clock.settle();
    theirs.election('boss', { ttlMs: 1_000 }).start({ onElected: () => void history.push('next') });
    await clock.advance(10);
    const closed = outcomeOf(mine.close());
    await clock.advance(4_900);
    expect(history).toEqual([]);
    await clock.advance(200);
    expect(history).toEqual(['ended', 'next']);
    await clock.advance(1_000);
    expect([led.state, closed.state]).toEqual(['kept', 'kept']);
  });
});

describe('observe', () => {
  it('begins although the watch never answers', async () => {
    const { faulty, clock } = makeWorld();
    const { locks } = faulty((call) => (call.verb === 'watch' ? 'hang' : null));
    const seen = outcomeOf(locks.election('boss').observe()[Symbol.asyncIterator]().next());
    await clock.advance(10_000);
    expect(seen.value).toEqual({ done: false, value: null });
  });
});
