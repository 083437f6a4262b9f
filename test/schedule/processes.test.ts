import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { compiled } from '../support/process/compiled.ts';
import {
  type CampaignResult,
  SCHEDULE_STORES,
  type ScheduleStore,
  scheduleCampaign,
} from '../support/schedule/campaign.ts';
import { type Harm, judge, type Run } from '../support/schedule/runs.ts';

const WORKER = fileURLToPath(new URL('../support/schedule/worker.ts', import.meta.url));

/** The minute of it is `npm run campaign -- schedule`. */
async function shortly(
  kind: ScheduleStore,
  { forMs = 14_000, plant = '', aheadMs = 0 } = {},
): Promise<CampaignResult> {
  const seed = Date.now() % 1_000_000;
  const script = compiled(WORKER);
  const times = { forMs, aheadMs, outageMs: 2_500 };
  return await scheduleCampaign({ kind, seed, plant, script, ...times, isStrict: false });
}

/** Two stores at a time: ten processes each keep a machine busy while they start. */
const PAIRS: readonly (readonly ScheduleStore[])[] = [0, 2, 4].map((n) => SCHEDULE_STORES.slice(n, n + 2));

for (const pair of PAIRS) {
  describe.concurrent('ten processes, clocks up to 5 s apart, a slot every second, kills and stops', () => {
    it.each(pair)(
      'on %s',
      async (kind) => {
        const { verdict, problems, missing, summary } = await shortly(kind);
        expect({ verdict, problems, missing }, summary).toEqual({
          verdict: 'holds',
          problems: [],
          missing: [],
        });
      },
      180_000,
    );
  });
}

// The same slot reaches both halves of the processes only after 4 minutes, as in
// `npm run campaign -- schedule --minutes 5 --ahead 4`.
it('half of the processes with clocks 4 minutes ahead of the others', async () => {
  const { verdict, problems, missing, summary } = await shortly('redis', { aheadMs: 4 * 60_000 });
  expect({ verdict, problems, missing }, summary).toEqual({ verdict: 'holds', problems: [], missing: [] });
}, 180_000);

it('the campaign finds what people write without a schedule', async () => {
  const { verdict, problems } = await shortly('sqlite', { forMs: 6_000, plant: 'naive' });
  expect(verdict).toBe('violated');
  expect(problems.join('\n')).toMatch(/^started twice: skip: slot/m);
}, 180_000);

describe('the judge', () => {
  const run = (
    schedule: 'skip' | 'once',
    slotMs: number,
    startedMs: number,
    more: Partial<Run> = {},
  ): Run => ({
    schedule,
    slotMs,
    startedMs,
    fence: BigInt(startedMs),
    worker: startedMs,
    heldMs: startedMs + 10,
    returnedMs: startedMs + 10,
    lostMs: null,
    releasedMs: startedMs + 11,
    ...more,
  });
  const died = { returnedMs: null, releasedMs: null };
  const kill = (worker: number, fromMs: number): Harm => ({
    kind: 'kill',
    worker,
    fromMs,
    toMs: Number.POSITIVE_INFINITY,
  });
  const found = (runs: Run[], harms: Harm[] = []): string[] =>
    judge(runs, harms, []).map((problem) => problem.split(':')[0] ?? '');

  it('takes a run for each slot, and another after a death with once', () => {
    expect(found([run('skip', 1, 100), run('skip', 2, 200), run('once', 1, 100)])).toEqual([]);
    expect(found([run('once', 1, 100, died), run('once', 1, 500)], [kill(100, 105)])).toEqual([]);
    expect(found([run('once', 1, 100, { ...died, lostMs: 300 }), run('once', 1, 500)])).toEqual([]);
  });

  it('finds a slot that starts twice with skip, also after a death', () => {
    expect(found([run('skip', 1, 100), run('skip', 1, 500)])).toEqual(['started twice']);
    expect(found([run('skip', 1, 100, died), run('skip', 1, 500)], [kill(100, 105)])).toEqual([
      'started twice',
    ]);
  });

  it('finds a slot that completes twice with once, or starts again while its process lives', () => {
    expect(found([run('once', 1, 100), run('once', 1, 500)], [kill(100, 105)])).toContain('completed twice');
    expect(found([run('once', 1, 100, died), run('once', 1, 500)])).toEqual([
      'started again without a death',
    ]);
    expect(found([run('once', 1, 100, died), run('once', 1, 500)], [kill(500, 105)])).toHaveLength(1);
  });

  it('finds two runs at once, and a fence that does not rise', () => {
    expect(found([run('skip', 1, 100, { heldMs: 300 }), run('skip', 2, 200)])).toEqual(['exclusion']);
    expect(found([run('skip', 1, 100), run('skip', 2, 200, { fence: 1n })])).toEqual(['fences']);
  });
});
