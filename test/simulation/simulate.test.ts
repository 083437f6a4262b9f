import { describe, expect, it } from 'vitest';
import { type Scenario, SimulationError, simulate } from '../../src/testing/index.ts';
import { fencedRegister, room, unfencedRegister } from './scenarios.ts';

const LOCKS = { ttlMs: 1_000, waitMs: 20_000 };

/** The error of a simulation that must fail. */
async function failureOf(run: Promise<unknown>): Promise<SimulationError> {
  const error = await run.catch((reason: unknown) => reason);
  if (!(error instanceof SimulationError)) throw new Error('the mistake was not found', { cause: error });
  return error;
}

describe('a simulation', () => {
  it('finds no lost update when every write is fenced, and every kind of fault occurs', async () => {
    const report = await simulate(fencedRegister, { histories: 1_500, locks: LOCKS });
    expect(report.histories).toBe(1_500);
    expect(report.held).toBeGreaterThan(5_000);
    expect(report.lost).toBeGreaterThan(150);
    for (const [fault, count] of Object.entries(report.faults)) expect(count, fault).toBeGreaterThan(100);
  });

  it('finds that two never hold at once', async () => {
    const report = await simulate(room, { histories: 1_000, locks: LOCKS });
    expect(report.held).toBeGreaterThan(4_000);
  });

  it('finds the lost update of an unfenced write, and tells it by the pause alone', async () => {
    const error = await failureOf(simulate(unfencedRegister, { histories: 2_000, locks: LOCKS }));
    expect(error.message).toMatch(/^seed \d+: Error: \d writes made the value \d\n/);
    const faults = error.story.filter((line) => /\(lost\)|crashes|jumps|paused/.test(line));
    expect(faults).toHaveLength(1);
    expect(faults[0]).toMatch(/p\d {2}is paused for \d+ ms$/);
    expect(error.story.length).toBeLessThan(60);
    expect(error.story.at(-1)).toMatch(/writes made the value/);
  });

  it('repeats a failing seed line by line', async () => {
    const options = { histories: 2_000, locks: LOCKS };
    const first = await failureOf(simulate(unfencedRegister, options));
    const again = await failureOf(simulate(unfencedRegister, { ...options, seed: first.seed, histories: 1 }));
    expect(again.story).toEqual(first.story);
  });

  it('reports a process that is stuck, and an error that no outage causes', async () => {
    const stuck: Scenario<null> = { setUp: () => null, run: () => new Promise(() => {}) };
    expect((await failureOf(simulate(stuck, { limitMs: 1_000 }))).message).toContain('stuck: p1, p2, p3');
    const thrown = new TypeError('a mistake of the program');
    const mistaken: Scenario<null> = { setUp: () => null, run: () => Promise.reject(thrown) };
    expect((await failureOf(simulate(mistaken))).cause).toBe(thrown);
  });

  it('refuses an option that it does not know', async () => {
    await expect(simulate(room, { historys: 1 } as object)).rejects.toThrow(/did you mean "?histories/);
    await expect(simulate(room, { histories: 0 })).rejects.toThrow(/histories/);
  });
});
