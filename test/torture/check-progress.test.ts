import { describe, expect, it } from 'vitest';
import { checkHistory } from '../../src/torture/checks/check-history.ts';
import type { Problem } from '../../src/torture/history.ts';
import { HistoryBuilder } from './support/history-builder.ts';

function resultOf(history: HistoryBuilder, property: string): string | undefined {
  return checkHistory(history.events).find((verdict) => verdict.property === property)?.result;
}

const run = (): HistoryBuilder => new HistoryBuilder().run();

describe('handoff time', () => {
  /** Process 1 waits for process 0, and the other way round. */
  const handoffs = (history: HistoryBuilder, tookMs: number): HistoryBuilder => {
    for (let n = 0; n < 20; n += 1) {
      const fromMs = n * (100 + tookMs);
      history.acquired(n % 2, fromMs - 50, fromMs).released(n % 2, fromMs + 100);
    }
    return history;
  };

  it('holds when the next holder follows at once, and is violated when most handoffs take a TTL', () => {
    expect(resultOf(handoffs(run(), 5).quiet(0, 9_000), 'handoff time')).toBe('holds');
    const late = run().quiet(0, 90_000);
    for (let n = 0; n < 20; n += 1)
      late.acquired(n, n * 2_000, n * 2_000 + 2_090).released(n, n * 2_000 + 2_095);
    expect(resultOf(late, 'handoff time')).toBe('violated');
  });

  it('is judged only in quiet periods, and not when the machine was overloaded', () => {
    expect(resultOf(handoffs(run(), 5), 'handoff time')).toBe('not enough');
    expect(resultOf(handoffs(run(), 5).quiet(0, 9_000, 400), 'handoff time')).toBe('not enough');
    // A history without notes counts as one quiet period.
    expect(resultOf(handoffs(new HistoryBuilder(), 5), 'handoff time')).toBe('holds');
  });
});

describe('dead holders', () => {
  const dead = (heldAgainMs: number): HistoryBuilder =>
    run()
      .quiet(0, 20_000)
      .acquired(0, 10, 20)
      .add(30, 1, 'invoke', 'acquire')
      .add(90, 0, 'invoke', 'lost')
      .add(100, 0, 'info', 'lost')
      .note(100, { kind: 'exit', worker: 0, how: 'SIGKILL', isExpected: true, processes: [0] })
      .add(heldAgainMs, 1, 'ok', 'acquire')
      .released(1, heldAgainMs + 10);

  it('are succeeded by the next holder within TTL + 3 s', () => {
    expect(resultOf(dead(1_200), 'dead holders')).toBe('holds');
    expect(resultOf(dead(4_200), 'dead holders')).toBe('violated');
    expect(resultOf(run().quiet(0, 20_000).turns(20), 'dead holders')).toBe('not enough');
  });
});

describe('lost wake-ups', () => {
  it('are reported when a lock stays free although a process waits for it', () => {
    const stuck = run()
      .quiet(0, 9_000)
      .hold(0, 10, 20)
      .add(30, 1, 'invoke', 'acquire')
      .add(8_900, 1, 'fail', 'acquire');
    expect(resultOf(stuck, 'lost wake-ups')).toBe('violated');
    const moving = run().quiet(0, 9_000).hold(0, 10, 20).acquired(1, 30, 5_000).released(1, 5_010);
    expect(resultOf(moving, 'lost wake-ups')).toBe('holds');
    const unused = run().quiet(0, 9_000).hold(0, 10, 20);
    expect(resultOf(unused, 'lost wake-ups')).toBe('holds');
    expect(resultOf(run().quiet(0, 1_000).hold(0, 10, 20), 'lost wake-ups')).toBe('not enough');
  });
});

describe('first come, first served', () => {
  /** Process 10 holds; 0 to 4 ask one after the other, and are served in this order. */
  const served = (order: readonly number[], isFair = true): HistoryBuilder => {
    const history = run().note(1, { kind: 'adapter', name: 'any', isFair }).quiet(0, 90_000);
    for (let round = 0; round < 5; round += 1) {
      const startMs = 2_000 + round * 2_000;
      history.acquired(10, startMs + 1, startMs + 2).released(10, startMs + 500);
      for (const process of [0, 1, 2, 3, 4])
        history.add(startMs + 10 + process * 50, process, 'invoke', 'acquire');
      for (const [n, process] of order.entries())
        history
          .add(startMs + 510 + n * 20, process, 'ok', 'acquire')
          .released(process, startMs + 520 + n * 20);
    }
    return history;
  };

  it('is judged when the adapter says that it is fair', () => {
    expect(resultOf(served([0, 1, 2, 3, 4]), 'first come, first served')).toBe('holds');
    expect(resultOf(served([4, 2, 0, 3, 1]), 'first come, first served')).toBe('violated');
    expect(resultOf(served([4, 2, 0, 3, 1], false), 'first come, first served')).toBe('not enough');
  });
});

describe('what is left over', () => {
  it('reports a lock that is still held after the run, and stored keys that grew with the run', () => {
    const end = (isFree: boolean, count: number): HistoryBuilder =>
      run().note(10, { kind: 'recovery', isFree, tookMs: 900 }, 'a').note(11, { kind: 'keys', count });
    expect(resultOf(end(true, 10), 'leaks')).toBe('holds');
    expect(resultOf(end(false, 10), 'leaks')).toBe('violated');
    expect(resultOf(end(true, 5_000), 'leaks')).toBe('violated');
    expect(resultOf(run(), 'leaks')).toBe('not enough');
  });

  it('finds a hold that was never given up in the history of another program', () => {
    expect(resultOf(new HistoryBuilder().turns(2), 'leaks')).toBe('holds');
    expect(resultOf(new HistoryBuilder().turns(2).acquired(5, 900, 900), 'leaks')).toBe('violated');
  });

  it('finds a heap and listeners that grow', () => {
    const samples = (heap: number, listeners: number): HistoryBuilder => {
      const history = run();
      for (let n = 0; n < 10; n += 1)
        history.note(n, { kind: 'state', worker: 0, heap: 1e7 + n * heap, listeners: 5 + n * listeners });
      return history;
    };
    expect(resultOf(samples(1e5, 0), 'heap and listeners')).toBe('holds');
    expect(resultOf(samples(1e7, 0), 'heap and listeners')).toBe('violated');
    expect(resultOf(samples(0, 10), 'heap and listeners')).toBe('violated');
    const warned = samples(0, 0).note(9, {
      ...{ kind: 'problem', worker: 1, what: 'warning' },
      text: 'MaxListenersExceededWarning: Possible EventEmitter memory leak detected.',
    });
    expect(resultOf(warned, 'heap and listeners')).toBe('violated');
    expect(resultOf(run(), 'heap and listeners')).toBe('not enough');
  });

  it('reports unexpected exits, uncaught exceptions and unhandled rejections', () => {
    const exited = (isExpected: boolean): HistoryBuilder =>
      run().note(10, { kind: 'exit', worker: 1, how: 'exit code 0', isExpected, processes: [1] });
    const problem = (what: Problem): HistoryBuilder =>
      exited(true).note(5, { kind: 'problem', worker: 1, what, text: 'Error: any' });
    expect(resultOf(exited(true), 'process exits')).toBe('holds');
    expect(resultOf(exited(false), 'process exits')).toBe('violated');
    expect(resultOf(problem('exception'), 'process exits')).toBe('violated');
    expect(resultOf(problem('hang'), 'process exits')).toBe('violated');
    expect(resultOf(problem('start'), 'process exits')).toBe('holds');
    expect(resultOf(problem('rejection'), 'unhandled rejections')).toBe('violated');
    expect(resultOf(exited(true), 'unhandled rejections')).toBe('holds');
    expect(resultOf(new HistoryBuilder().turns(20), 'process exits')).toBe('not enough');
  });
});
