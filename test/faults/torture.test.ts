import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { BACKENDS, type BackendKind } from '../../src/torture/backends/backend.ts';
import { compiled } from '../support/process/compiled.ts';
import type { FaultKind } from '../support/torture/faults.ts';
import { Ledger } from '../support/torture/ledger.ts';
import { type TortureResult, torture } from '../support/torture/torture.ts';

const WORKER = fileURLToPath(new URL('../support/torture/worker.ts', import.meta.url));
const FOR_MS = 10_000;

type Changes = { plant?: string; patienceMs?: number; faults?: readonly FaultKind[]; forMs?: number };

/** Ten seconds of what `npm run campaign -- torture` does for an hour. */
async function shortly(kind: BackendKind, changes: Changes = {}): Promise<TortureResult> {
  const nodes = kind === 'redlock' ? 3 : 1;
  const seed = Date.now() % 1_000_000;
  return await torture({ kind, nodes, seed, forMs: FOR_MS, ...changes, script: compiled(WORKER) });
}

// One group, so that the tests that mostly wait run together with the busy ones.
describe.concurrent('torture', () => {
  it.each(BACKENDS)(
    'kills, stops, failing connections and restarts break nothing on %s',
    async (kind) => {
      const { problems, missing, verdict, summary } = await shortly(kind);
      expect({ problems, missing, verdict }, summary).toEqual({
        problems: [],
        missing: [],
        verdict: 'holds',
      });
    },
    200_000,
  );

  it('finds a planted defect: a holder that ignores its deadline', async () => {
    const found: string[] = [];
    // Not every stop hits a holder of a contended lock, and ten seconds have room for few of them.
    for (let tries = 0; tries < 5 && found.length === 0; tries += 1) {
      const { problems } = await shortly('sqlite', { plant: 'no-deadline', faults: ['stop'] });
      found.push(...problems);
    }
    expect(found.join('\n')).toMatch(/^exclusion: torture-\d+: worker \d+ \(fence \d+\) held beside/m);
  }, 200_000);

  it('finds a planted defect: a process that exits silently', async () => {
    const { verdict, problems } = await shortly('sqlite', { plant: 'silent-exit' });
    expect(verdict).toBe('violated');
    expect(problems.join('\n')).toMatch(/^silent exit: worker \d+ ended with 0$/m);
  }, 200_000);

  it('does not pass a run that did nothing', async () => {
    const { verdict, missing } = await shortly('sqlite', { plant: 'idle', patienceMs: 0, forMs: 3_000 });
    expect([verdict, missing[0]]).toEqual(['not enough', '0 holds, 3 wanted']);
  }, 200_000);
});

describe('the ledger', () => {
  const judge = (...intervals: [lock: string, fence: bigint, fromMs: number, toMs: number][]): string[] => {
    const ledger = new Ledger();
    for (const [n, [lock, fence, fromMs, toMs]] of intervals.entries())
      ledger.add({ lock, fence, fromMs, toMs, worker: n });
    ledger.judge();
    return ledger.problems.map((problem) => problem.split(':')[0] ?? '');
  };

  it('finds two holds at once, also inside a longer hold, and none across locks', () => {
    expect(judge(['a', 1n, 0, 10], ['a', 2n, 9, 12])).toEqual(['exclusion']);
    expect(judge(['a', 2n, 9, 12], ['a', 1n, 0, 10])).toEqual(['exclusion']);
    expect(judge(['a', 1n, 0, 100], ['a', 2n, 10, 20], ['a', 3n, 30, 40])).toEqual([
      'exclusion',
      'exclusion',
    ]);
    expect(judge(['a', 1n, 0, 10], ['b', 2n, 9, 12], ['a', 3n, 10, 12])).toEqual([]);
  });

  it('finds a fence that does not rise', () => {
    expect(judge(['a', 2n, 0, 10], ['a', 1n, 11, 12])).toEqual(['fences']);
    expect(judge(['a', 2n, 0, 10], ['a', 2n, 11, 12])).toEqual(['fences']);
    expect(judge(['a', 1n, 0, 10], ['a', 2n, 11, 12], ['b', 1n, 13, 14])).toEqual([]);
  });

  it('of a session lets a holder learn of a reset a moment late, and no later', () => {
    const judged = (...ends: [fence: bigint, fromMs: number, toMs: number][]): [number, number] => {
      const ledger = new Ledger(1_000);
      for (const [worker, [fence, fromMs, toMs]] of ends.entries())
        ledger.add({ lock: 'a', fence, worker, fromMs, toMs });
      ledger.judge();
      return [ledger.lateNotices, ledger.problems.length];
    };
    expect(judged([1n, 0, 500], [2n, 400, 450])).toEqual([1, 0]);
    expect(judged([2n, 0, 500], [1n, 100, 100])).toEqual([1, 0]);
    expect(judged([1n, 0, 5_000], [2n, 400, 4_500])).toEqual([0, 1]);
    expect(judged([2n, 0, 5_000], [1n, 400, 4_500])).toEqual([0, 2]);
    expect(judged([1n, 0, 500], [1n, 600, 700])).toEqual([0, 1]);
    expect(judged([2n, 0, 500], [1n, 5_000, 5_100])).toEqual([0, 1]);
  });

  it('judges the holds that began before a given moment, and the others later', () => {
    const ledger = new Ledger();
    ledger.add({ lock: 'a', fence: 1n, worker: 1, fromMs: 0, toMs: 50 });
    ledger.judge(100);
    ledger.add({ lock: 'a', fence: 2n, worker: 2, fromMs: 120, toMs: 130 });
    ledger.add({ lock: 'a', fence: 3n, worker: 3, fromMs: 125, toMs: 130 });
    ledger.judge(110);
    expect([ledger.judged, ledger.problems.length]).toEqual([1, 0]);
    ledger.judge();
    expect([ledger.judged, ledger.problems.length]).toEqual([3, 1]);
  });
});
