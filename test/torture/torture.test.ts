import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import type { Verdict } from '../../src/torture/checks/verdict.ts';
import { parseHistory } from '../../src/torture/history.ts';
import { holdfast } from '../cli/support/holdfast.ts';
import { PLANTED } from '../support/torture/planted.ts';

const planted = (name: string): string => fileURLToPath(new URL(`./planted/${name}.mjs`, import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'holdfast-torture-test-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Outcome {
  readonly code: number | null;
  readonly verdicts: Verdict[];
  readonly operations: number;
  readonly faults: Record<string, number>;
}

/** Seconds of what the command does for minutes. The load of the machine makes it longer. */
async function shortly(name: string, ...args: string[]): Promise<Outcome> {
  const all = ['torture', planted(name), '--minutes', '0.05', '--workers', '3', '--json', ...args];
  const { code, stdout, stderr } = await holdfast(all);
  expect(stderr).toBe('');
  return { code, ...(JSON.parse(stdout) as Omit<Outcome, 'code'>) };
}

const violatedBy = ({ verdicts }: Outcome): string[] =>
  verdicts.filter(({ result }) => result === 'violated').map(({ property }) => property);

describe.concurrent('torture', () => {
  it('accuses a right adapter of nothing, and records a history that says the same', async () => {
    const [history, edn] = [join(folder, 'history.jsonl'), join(folder, 'history.edn')];
    const outcome = await shortly('correct', '--seed', '7', '--history', history, '--edn', edn);
    expect(violatedBy(outcome)).toEqual([]);
    // Three seconds are too few for every fault: that is never called enough.
    expect([outcome.code, outcome.verdicts[0]?.result]).toEqual([2, 'not enough']);
    const events = parseHistory(readFileSync(history, 'utf8'));
    expect(events.filter(({ op, type }) => op === 'acquire' && type === 'ok').length).toBeGreaterThan(0);
    expect(readFileSync(edn, 'utf8').trim().split('\n').length).toBe(events.length);
    const again = await holdfast(['torture', '--check', history, '--json']);
    expect(again.code).toBe(2);
    expect((JSON.parse(again.stdout) as Outcome).verdicts).toEqual(outcome.verdicts);
  }, 200_000);

  // Each shows its mistake within seconds, whichever targets the faults hit.
  it.each(['no-recheck', 'fence-in-memory', 'silent-exit'])(
    'catches the planted mistake of %s',
    async (name) => {
      const outcome = await shortly(name, '--faults', 'cut');
      expect(violatedBy(outcome)).toContain(PLANTED[name]);
      expect(outcome.code).toBe(1);
      expect(outcome.faults.cut).toBeGreaterThan(0);
    },
    200_000,
  );

  it.each([
    ['a server that forgets everything', 'wipe', 'fence uniqueness'],
    ['a server whose clock jumps', 'server-clock', 'exclusion'],
  ])(
    'accuses the right adapter on %s, where no lease is safe',
    async (_, fault, property) => {
      const outcome = await shortly('correct', '--faults', fault, '--minutes', '0.2');
      expect(violatedBy(outcome)).toContain(property);
      expect(outcome.code).toBe(1);
      expect(Object.keys(outcome.faults)).toEqual([fault]);
    },
    200_000,
  );

  it.each([
    ['no adapter', [], /needs the path of an adapter module/],
    ['no such file', ['./missing.mjs'], /there is no file/],
    ['an unknown server', [planted('correct'), '--server', 'oracle'], /must be a URL or one of redis,/],
    [
      'an unknown fault',
      [planted('correct'), '--server', 'sqlite', '--faults', 'flood'],
      /"flood" is not a fault/,
    ],
    ['an unreadable history', ['--check', './missing.jsonl'], /cannot be read/],
  ])('refuses %s as wrong usage', async (_, args, message) => {
    const { code, stderr } = await holdfast(['torture', ...args]);
    expect(stderr).toMatch(message);
    expect(code).toBe(64);
  });

  it('says why an adapter does not start', async () => {
    const file = fileURLToPath(new URL('./support/broken-adapter.mjs', import.meta.url));
    const { code, stderr } = await holdfast(['torture', file, '--server', 'sqlite']);
    expect(stderr).toMatch(/the adapter does not start: Error: nothing is here/);
    expect(code).toBe(70);
  }, 100_000);
});
