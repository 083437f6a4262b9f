import { describe, expect, it } from 'vitest';
import { batchStage } from './batch-stage.ts';

describe('failures', () => {
  it('a failed call rejects all its requests, unless the backend decides otherwise', async () => {
    const { batch, call, outcome, clock } = batchStage();
    const all = ['a', 'b'].map((name) => outcome(batch.add(name, undefined)));
    await clock.settle();
    call(0).fail(new Error('broken'));
    expect(await Promise.all(all)).toEqual(['failed', 'failed']);
    expect(batch.isIdle).toBe(true);
  });

  it('a backend that throws instead of rejecting fails only that call', async () => {
    const { batch, outcome } = batchStage({
      send: () => {
        throw new Error('thrown');
      },
    });
    expect(await outcome(batch.add('a', undefined))).toBe('failed');
    expect(await outcome(batch.add('b', undefined))).toBe('failed');
  });

  it('rejects a request that a call has no answer for', async () => {
    const { batch, call, outcome, clock } = batchStage();
    const all = ['a', 'b'].map((name) => outcome(batch.add(name, undefined)));
    await clock.settle();
    call(0).answer([{ value: 'A' }]);
    expect(await Promise.all(all)).toEqual(['A', 'failed']);
  });

  it('one request of a call can fail alone', async () => {
    const { batch, call, outcome, clock } = batchStage();
    const all = ['a', 'b'].map((name) => outcome(batch.add(name, undefined)));
    await clock.settle();
    call(0).answer([{ error: new Error('refused') }, { value: 'B' }]);
    expect(await Promise.all(all)).toEqual(['refused', 'B']);
  });

  it('alone: each request is sent by itself, before later ones, and rejected if it fails again', async () => {
    const { batch, sent, call, outcome, clock } = batchStage({ callsMax: 1, onFailure: () => 'alone' });
    const all = ['a', 'b'].map((name) => outcome(batch.add(name, undefined)));
    await clock.settle();
    const c = outcome(batch.add('c', undefined));
    call(0).fail(new Error('one is to blame'));
    await clock.settle();
    call(1).fail(new Error('this one'));
    await clock.settle();
    call(2).answer();
    await clock.settle();
    call(3).answer();
    expect([await Promise.all([...all, c]), sent()]).toEqual([
      ['failed', 'b!', 'c!'],
      ['ab', 'a', 'b', 'c'],
    ]);
  });

  it('again: nothing else is sent before, and requests that are given up are left out', async () => {
    const seen: string[] = [];
    const { batch, sent, call, outcome, clock } = batchStage({
      callsMax: 1,
      onFailure: (_error, { tries, elapsedMs }) => {
        seen.push(`${tries}, ${elapsedMs} ms`);
        return tries < 3 ? { againMs: 20 } : 'fail';
      },
    });
    const given = new AbortController();
    const all = [outcome(batch.add('a', undefined)), outcome(batch.add('b', given.signal))];
    await clock.settle();
    const c = outcome(batch.add('c', undefined));
    call(0).fail(new Error('busy'));
    await clock.advance(19);
    expect(sent()).toEqual(['ab']);
    given.abort();
    await clock.advance(1);
    expect(sent()).toEqual(['ab', 'ac']);
    call(1).fail(new Error('busy'));
    await clock.advance(20);
    call(2).fail(new Error('busy'));
    await clock.advance(20);
    call(3).answer();
    expect(await Promise.all([...all, c])).toEqual(['failed', 'not sent', 'c!']);
    expect(seen).toEqual(['1, 0 ms', '1, 0 ms', '2, 20 ms', '1, 0 ms', '3, 40 ms', '2, 20 ms']);
  });

  it('again without a delay goes out at once', async () => {
    const { batch, call, outcome, clock } = batchStage({ onFailure: () => ({ againMs: 0 }) });
    const a = outcome(batch.add('a', undefined));
    await clock.settle();
    call(0).fail(new Error('deadlock'));
    await clock.settle();
    call(1).answer();
    expect(await a).toBe('a!');
  });
});

describe('requests that are sent again one by one', () => {
  it('other requests are sent meanwhile, and the backend knows the number of attempts', async () => {
    const { batch, sent, call, outcome, clock } = batchStage();
    const [a, b] = ['a', 'b'].map((name) => outcome(batch.add(name, undefined)));
    await clock.settle();
    call(0).answer([{ retryMs: 30 }, { value: 'B' }]);
    expect(await b).toBe('B');
    void batch.add('c', undefined);
    await clock.advance(29);
    expect([sent(), batch.isIdle]).toEqual([['ab', 'c'], false]);
    await clock.advance(1);
    expect([sent(), call(2).info.triesOf(0)]).toEqual([['ab', 'c', 'a'], 1]);
    call(2).answer([{ retryMs: 0 }]);
    await clock.settle();
    expect([sent().at(-1), call(3).info.triesOf(0)]).toEqual(['a', 2]);
    call(3).answer();
    expect(await a).toBe('a!');
  });

  it('the timer keeps the process alive, and is cancelled when the caller gives up', async () => {
    const { clock, batch, call, outcome } = batchStage();
    const keptAlive: (boolean | undefined)[] = [];
    const { startTimer } = clock;
    clock.startTimer = (ms, fire, options) => {
      keptAlive.push(options?.keepAlive);
      return startTimer.call(clock, ms, fire);
    };
    const given = new AbortController();
    const a = outcome(batch.add('a', given.signal));
    await clock.settle();
    call(0).answer([{ retryMs: 400 }]);
    await clock.advance(300);
    expect([keptAlive, clock.timers]).toEqual([[undefined, true], 1]);
    given.abort();
    expect([await a, clock.timers, batch.isIdle]).toEqual(['not sent', 0, true]);
  });
});

it('rejects every request that was not sent, and nothing else', async () => {
  const { batch, call, outcome, clock } = batchStage({ callsMax: 1 });
  const resting = outcome(batch.add('a', undefined));
  await clock.settle();
  call(0).answer([{ retryMs: 1_000 }]);
  await clock.settle();
  const sent = outcome(batch.add('b', undefined));
  await clock.settle();
  const queued = outcome(batch.add('c', undefined));
  batch.rejectQueued(new Error('closed'));
  expect(await Promise.all([resting, queued])).toEqual(['closed', 'closed']);
  call(1).answer();
  expect([await sent, batch.isIdle]).toEqual(['b!', true]);
});
