import { describe, expect, it } from 'vitest';
import { checkHistory } from '../../src/torture/checks/check-history.ts';
import { overall } from '../../src/torture/checks/verdict.ts';
import type { HistoryEvent } from '../../src/torture/history.ts';
import { HistoryBuilder } from './support/history-builder.ts';

function resultOf(history: HistoryBuilder, property: string): string | undefined {
  return checkHistory(history.events).find((verdict) => verdict.property === property)?.result;
}

const history = (): HistoryBuilder => new HistoryBuilder();

describe('exclusion', () => {
  it('holds when holds follow each other, and is violated when two overlap', () => {
    expect(resultOf(history().turns(20), 'exclusion')).toBe('holds');
    expect(resultOf(history().turns(20).hold(7, 5, 8), 'exclusion')).toBe('violated');
    expect(resultOf(history().turns(20).hold(7, 5, 8, { lock: 'b' }), 'exclusion')).toBe('holds');
  });

  it('finds a hold inside a longer one, and during one that never ended', () => {
    const inside = history().turns(20).hold(5, 1_000, 2_000).hold(6, 1_100, 1_110).hold(7, 1_200, 1_210);
    const [exclusion] = checkHistory(inside.events);
    expect(exclusion).toMatchObject({
      result: 'violated',
      detail: expect.stringContaining('processes 5 and 7'),
    });
    expect(resultOf(history().acquired(5, 0, 0).hold(6, 100, 110), 'exclusion')).toBe('violated');
  });

  it('ends a hold at the last moment at which its process surely held', () => {
    const lost = (invoke: HistoryEvent['type']): HistoryBuilder =>
      history().turns(20).acquired(5, 1_000, 1_000).add(1_050, 5, invoke, 'lost').hold(6, 1_060, 1_100);
    // Noticed only after the successor had the lock.
    expect(resultOf(lost('invoke').add(1_200, 5, 'ok', 'lost'), 'exclusion')).toBe('holds');
    expect(resultOf(lost('info'), 'exclusion')).toBe('holds');
    const late = history()
      .turns(20)
      .acquired(5, 1_000, 1_000)
      .hold(6, 1_060, 1_100)
      .add(1_200, 5, 'ok', 'lost');
    expect(resultOf(late, 'exclusion')).toBe('violated');
  });

  it('leaves out a grant that came too late, and that its holder never relied on', () => {
    const late = history().turns(20).acquired(5, 1, 5).add(5, 5, 'invoke', 'lost').add(6, 5, 'ok', 'lost');
    expect(resultOf(late, 'exclusion')).toBe('holds');
  });

  it('is not shown by a few holds, or by one process', () => {
    expect(resultOf(history(), 'exclusion')).toBe('not enough');
    expect(resultOf(history().turns(9), 'exclusion')).toBe('not enough');
    const alone = history();
    for (let n = 0; n < 50; n += 1) alone.hold(0, n * 20, n * 20 + 10);
    expect(resultOf(alone, 'exclusion')).toBe('not enough');
    expect(resultOf(history().run([], 60).turns(50), 'exclusion')).toBe('not enough');
  });

  it('is not shown by a run in which a fault that was wanted never came', () => {
    expect(resultOf(history().run(['kill']).turns(50), 'exclusion')).toBe('not enough');
    const injected = history().run(['kill']).note(1, { kind: 'fault', fault: 'kill' }).turns(50);
    expect(resultOf(injected, 'exclusion')).toBe('holds');
  });
});

describe('readers, writers and permits', () => {
  it('lets readers overlap, and no writer during a read', () => {
    const readers = history().turns(10);
    for (let n = 0; n < 20; n += 1) readers.hold(n + 10, 1_000, 1_500, { value: 1 });
    expect(resultOf(readers, 'readers and writers')).toBe('holds');
    expect(resultOf(readers.hold(5, 1_400, 1_410), 'readers and writers')).toBe('violated');
    expect(resultOf(history().turns(20), 'readers and writers')).toBe('not enough');
  });

  it('counts permits', () => {
    const permits = history().note(0, { kind: 'capacity', permits: 2 }, 'p');
    for (let n = 0; n < 20; n += 1) permits.hold(n % 2, n * 20, n * 20 + 35, { lock: 'p', value: 1 });
    expect(resultOf(permits, 'capacity')).toBe('holds');
    expect(resultOf(permits.hold(9, 30, 32, { lock: 'p', value: 1 }), 'capacity')).toBe('violated');
  });
});

describe('fences', () => {
  it('must rise from hold to hold, and none may come twice', () => {
    expect(resultOf(history().turns(20), 'fence order')).toBe('holds');
    expect(resultOf(history().turns(20), 'fence uniqueness')).toBe('holds');
    const falling = history().turns(20).hold(5, 900, 910, { fence: '3' });
    expect(resultOf(falling, 'fence order')).toBe('violated');
    expect(resultOf(falling, 'fence uniqueness')).toBe('violated');
    expect(resultOf(history().turns(20).hold(5, 900, 910, { fence: '3', lock: 'b' }), 'fence order')).toBe(
      'holds',
    );
  });

  it('are compared as numbers of any size', () => {
    const large = '1234567890123456789012345678901234567890';
    const risen = history()
      .turns(20)
      .hold(5, 900, 910, { fence: large })
      .hold(6, 950, 960, { fence: `${large}0` });
    expect(resultOf(risen, 'fence order')).toBe('holds');
    expect(resultOf(risen.hold(7, 970, 980, { fence: `${large}` }), 'fence order')).toBe('violated');
  });

  it('leaves out a grant whose holder never relied on it, and an adapter without fences', () => {
    const late = history()
      .turns(20, {}, 0)
      .acquired(5, 100, 900, { fence: '0' })
      .add(900, 5, 'invoke', 'lost');
    expect(resultOf(late, 'fence order')).toBe('holds');
    const without = history();
    for (let n = 0; n < 20; n += 1) without.hold(n % 2, n * 20, n * 20 + 10);
    expect(resultOf(without, 'fence order')).toBe('not enough');
  });
});

describe('registers', () => {
  const changes = (more: Partial<HistoryEvent>): HistoryBuilder => {
    const all = history();
    for (let n = 0; n < 20; n += 1) all.change(n % 2, n * 20, n * 20 + 10, n, more);
    return all;
  };

  it.each([
    ['lost updates, unfenced register', {}],
    ['lost updates, fenced register', { fence: '1' }],
  ])('%s: finds two writes of one number, and a register that was set back', (property, more) => {
    expect(resultOf(changes(more), property)).toBe('holds');
    expect(resultOf(changes(more).change(5, 375, 391, 18, more), property)).toBe('violated');
    expect(resultOf(changes(more).change(5, 500, 510, 3, more), property)).toBe('violated');
    expect(resultOf(history().change(0, 0, 1, 0, more), property)).toBe('not enough');
    expect(resultOf(history().turns(20), property)).toBe('not enough');
  });

  it('does not accuse the lock of a write by a process that was paused after its last check', () => {
    const stale = changes({}).change(5, 100, 500, 3, { type: 'info' });
    // Reads what the late write has left, while the lock is its own.
    expect(resultOf(stale.change(6, 600, 610, 4), 'lost updates, unfenced register')).toBe('holds');
    // Read before that write: nothing excuses it.
    expect(resultOf(stale.change(7, 450, 620, 17), 'lost updates, unfenced register')).toBe('violated');
  });

  it('does not order writes that were confirmed late', () => {
    const late = changes({ fence: '1' })
      .add(5, 9, 'invoke', 'write', { value: 0, fence: '1' })
      .add(900, 9, 'ok', 'write', { value: 0, fence: '1' });
    expect(resultOf(late, 'lost updates, fenced register')).toBe('holds');
  });
});

describe('a verdict over all', () => {
  it('is violated with one violation, and not enough without exclusion', () => {
    const of = (...results: ('holds' | 'violated' | 'not enough')[]): string =>
      overall(
        results.map((result, n) => ({ property: n === 0 ? 'exclusion' : `p${n}`, result, detail: '' })),
      );
    expect(of('holds', 'not enough', 'holds')).toBe('holds');
    expect(of('holds', 'violated')).toBe('violated');
    expect(of('not enough', 'holds')).toBe('not enough');
    expect(overall([])).toBe('not enough');
  });
});
