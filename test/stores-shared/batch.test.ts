import { describe, expect, it } from 'vitest';
import type { BatchOptions } from '../../src/stores/shared/batch-options.ts';
import { collectGarbage } from '../support/process/collect-garbage.ts';
import { batchStage } from './batch-stage.ts';

describe('what travels together', () => {
  it('sends what is asked in one piece of code as one call, and gives each its own answer', async () => {
    const { batch, sent, call, clock } = batchStage();
    const all = Promise.all([batch.add('a', undefined), batch.add('b', undefined)]);
    await clock.settle();
    expect(sent()).toEqual(['ab']);
    call(0).answer();
    expect(await all).toEqual(['a!', 'b!']);
    expect(batch.isIdle).toBe(true);
  });

  it('sends at once with nothing pending, where asked for, and else gathers for a tick', async () => {
    const { batch, sent, clock } = batchStage({ callsMax: 9, sendsAtOnce: true });
    const askFromMicrotasks = async (first: string, second: string): Promise<void> => {
      void batch.add(first, undefined);
      await Promise.resolve();
      await Promise.resolve();
      void batch.add(second, undefined);
    };
    void askFromMicrotasks('a', 'b');
    await clock.settle();
    expect(sent()).toEqual(['a', 'b']);
    void askFromMicrotasks('c', 'd');
    await clock.settle();
    expect(sent()).toEqual(['a', 'b', 'cd']);
  });

  it('gathers until the end of the tick also with nothing pending', async () => {
    const { batch, sent, clock } = batchStage();
    void batch.add('a', undefined);
    void Promise.resolve()
      .then(() => {})
      .then(() => batch.add('b', undefined));
    await clock.settle();
    expect(sent()).toEqual(['ab']);
  });

  it('bounds the calls and their items, and gathers meanwhile', async () => {
    const { batch, sent, call, clock } = batchStage();
    for (const name of 'abcdefghijk') void batch.add(name, undefined);
    await clock.settle();
    expect(sent()).toEqual(['abcd', 'efgh']);
    void batch.add('l', undefined);
    await clock.settle();
    expect(sent()).toHaveLength(2);
    call(1).answer();
    await clock.settle();
    expect(sent()).toEqual(['abcd', 'efgh', 'ijkl']);
  });

  it('splits a first wave in two', async () => {
    const { batch, sent, clock } = batchStage({ itemsMax: 100, halveAbove: 3 });
    for (const name of 'abc') void batch.add(name, undefined);
    await clock.settle();
    expect(sent()).toEqual(['abc']);
    const other = batchStage({ itemsMax: 100, halveAbove: 3 });
    for (const name of 'abcdefgh') void other.batch.add(name, undefined);
    await other.clock.settle();
    expect(other.sent()).toEqual(['abcd', 'efgh']);
  });

  it('orders the requests of a call, those of one name as they came', async () => {
    const { batch, sent, clock } = batchStage({ orderBy: (request) => request[0] ?? '' });
    for (const name of ['c1', 'a1', 'c2', 'a2']) void batch.add(name, undefined);
    await clock.settle();
    expect(sent()).toEqual(['a1a2c1c2']);
  });

  it('keeps requests with a key in common apart, and in order', async () => {
    const { batch, sent, clock } = batchStage({
      callsMax: Infinity,
      conflicts: (request) => [request[0] ?? ''],
    });
    for (const name of ['a1', 'b1', 'a2', 'c1', 'c2']) void batch.add(name, undefined);
    await clock.settle();
    expect(sent()).toEqual(['a1b1', 'a2c1', 'c2']);
  });

  it('sends some requests by themselves, in their turn', async () => {
    const { batch, sent, clock } = batchStage({ callsMax: Infinity, isAlone: (request) => request === 'X' });
    for (const name of 'abXcd') void batch.add(name, undefined);
    await clock.settle();
    expect(sent()).toEqual(['ab', 'X', 'cd']);
  });
});

describe('readiness', () => {
  function stageNotReady(options: Partial<BatchOptions<string, string>> = {}) {
    const state = { isReady: false, callbacks: [] as ((refusal: Error | null) => void)[] };
    const rest = batchStage({
      isReady: () => state.isReady,
      whenReady: (callback) => state.callbacks.push(callback),
      ...options,
    });
    const open = (): void => {
      state.isReady = true;
      for (const callback of state.callbacks.splice(0)) callback(null);
    };
    return { ...rest, state, open };
  }

  it('asks once, and sends everything when a call can go', async () => {
    const { batch, sent, clock, state, open } = stageNotReady();
    void batch.add('a', undefined);
    await clock.settle();
    void batch.add('b', undefined);
    await clock.settle();
    expect([sent(), state.callbacks.length]).toEqual([[], 1]);
    open();
    await clock.settle();
    expect(sent()).toEqual(['ab']);
  });

  it('rejects what is queued when no call can go', async () => {
    const { batch, outcome, clock, state } = stageNotReady();
    const all = ['a', 'b'].map((name) => outcome(batch.add(name, undefined)));
    await clock.settle();
    state.callbacks[0]?.(new Error('refused'));
    expect(await Promise.all(all)).toEqual(['refused', 'refused']);
  });

  it('with several connections, each call waits for one that is free', async () => {
    let free = 2;
    const waiting: ((refusal: null) => void)[] = [];
    const giveBack = (): void => {
      free += 1;
      waiting.shift()?.(null);
    };
    const taken: string[] = [];
    const answers: (() => void)[] = [];
    const { batch, clock } = batchStage({
      callsMax: Infinity,
      itemsMax: 2,
      isReady: () => free > 0,
      whenReady: (callback) => void waiting.push(callback),
      send: (requests) => {
        free -= 1;
        taken.push(requests.join(''));
        return new Promise((resolve) => {
          answers.push(() => {
            giveBack();
            resolve(requests.map((value) => ({ value })));
          });
        });
      },
    });
    for (const name of 'abcdefg') void batch.add(name, undefined);
    await clock.settle();
    expect([taken, waiting.length]).toEqual([['ab', 'cd'], 1]);
    answers[1]?.();
    await clock.settle();
    expect(taken).toEqual(['ab', 'cd', 'ef']);
    answers[0]?.();
    await clock.settle();
    expect([taken, free]).toEqual([['ab', 'cd', 'ef', 'g'], 0]);
  });

  it('a request that is given up leaves at once, and is never sent', async () => {
    const { batch, sent, outcome, clock, open } = stageNotReady();
    const given = new AbortController();
    const a = outcome(batch.add('a', given.signal));
    const b = outcome(batch.add('b', given.signal));
    void batch.add('c', undefined);
    await clock.settle();
    given.abort();
    expect(await Promise.all([a, b])).toEqual(['not sent', 'not sent']);
    open();
    await clock.settle();
    expect(sent()).toEqual(['c']);
  });

  it('nothing stays of requests that were given up while no call can go', async () => {
    const { batch, outcome, clock } = stageNotReady();
    const waiting = new AbortController();
    void outcome(batch.add('first', waiting.signal));
    await clock.settle();
    const given: WeakRef<AbortSignal>[] = [];
    for (let round = 0; round < 50; round += 1) {
      const controller = new AbortController();
      given.push(new WeakRef(controller.signal));
      const all = Array.from({ length: 100 }, (_, n) => outcome(batch.add(`${n}`, controller.signal)));
      await clock.settle();
      controller.abort();
      await Promise.all(all);
    }
    expect(clock.timers).toBe(0);
    await clock.settle();
    const left = (): number => given.filter((signal) => signal.deref() !== undefined).length;
    await collectGarbage();
    expect(left()).toBeLessThanOrEqual(1);
    waiting.abort();
    expect(batch.isIdle).toBe(true);
  });
});

describe('calls that take long', () => {
  it('a request that is abandoned after it was sent is unanswered, and its answer is dropped', async () => {
    const unanswered: string[] = [];
    const { batch, call, outcome, clock } = batchStage({ onNoAnswer: () => void unanswered.push('a') });
    const given = new AbortController();
    const a = outcome(batch.add('a', given.signal));
    const b = outcome(batch.add('b', undefined));
    await clock.advance(250);
    given.abort();
    expect(await a).toBe('no answer');
    expect([call(0).info.isWanted(0), call(0).info.isWanted(1), unanswered]).toEqual([false, true, ['a']]);
    call(0).answer();
    expect(await b).toBe('b!');
  });

  it('a request whose signal aborts soon after it was sent is given up at the next look', async () => {
    const { batch, outcome, clock } = batchStage();
    const given = new AbortController();
    const a = outcome(batch.add('a', given.signal));
    await clock.advance(100);
    given.abort();
    await clock.advance(150);
    expect(await a).toBe('no answer');
  });

  it('a sent request is not abandoned where the backend needs its answer, a queued one is', async () => {
    const { batch, call, sent, clock, outcome } = batchStage({ keepsSent: true, callsMax: 1, itemsMax: 1 });
    const controller = new AbortController();
    const [first, second] = ['a', 'b'].map((each) => outcome(batch.add(each, controller.signal)));
    await clock.advance(300);
    controller.abort();
    expect(await second).toBe('not sent');
    await clock.advance(300);
    expect(batch.isIdle).toBe(false);
    call(0).answer();
    expect(await first).toBe('a!');
    expect(sent()).toEqual(['a']);
  });

  it('a call that everybody has given up makes room for the next, and the backend is told', async () => {
    const { batch, sent, call, outcome, clock } = batchStage({ callsMax: 1 });
    const given = new AbortController();
    const a = outcome(batch.add('a', given.signal));
    await clock.settle();
    const abandoned: string[] = [];
    call(0).info.onAbandoned = () => void abandoned.push('a');
    void batch.add('b', undefined);
    await clock.advance(250);
    expect(sent()).toEqual(['a']);
    given.abort();
    expect([await a, abandoned]).toEqual(['no answer', ['a']]);
    await clock.settle();
    expect(sent()).toEqual(['a', 'b']);
    call(0).answer();
    await clock.settle();
    expect(batch.isIdle).toBe(false);
  });

  it('sends no more while too many calls that were given up are unanswered', async () => {
    const { batch, sent, call, outcome, clock } = batchStage({ callsMax: 1, abandonedMax: 2 });
    for (const name of 'abc') {
      const given = new AbortController();
      const outcomeOf = outcome(batch.add(name, given.signal));
      await clock.advance(250);
      given.abort();
      expect(await outcomeOf).toBe(name === 'c' ? 'not sent' : 'no answer');
    }
    const d = outcome(batch.add('d', undefined));
    await clock.advance(1_000);
    expect(sent()).toEqual(['a', 'b']);
    call(0).fail(new Error('the connection broke'));
    await clock.settle();
    call(2).answer();
    expect([await d, sent()]).toEqual(['d!', ['a', 'b', 'd']]);
  });

  it('what is queued behind busy calls leaves at once when it is given up', async () => {
    const { batch, sent, call, outcome, clock } = batchStage({ callsMax: 1 });
    void batch.add('a', undefined);
    await clock.settle();
    const given = new AbortController();
    const b = outcome(batch.add('b', given.signal));
    await clock.settle();
    given.abort();
    expect(await b).toBe('not sent');
    call(0).answer();
    await clock.settle();
    expect([sent(), batch.isIdle]).toEqual([['a'], true]);
  });

  it('looks for slow calls from no timer once nothing is on its way', async () => {
    const { batch, call, clock } = batchStage();
    void batch.add('a', undefined);
    await clock.advance(1_000);
    expect(clock.timers).toBe(1);
    call(0).answer();
    await clock.advance(250);
    expect(clock.timers).toBe(0);
  });
});
