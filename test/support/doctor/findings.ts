import { expect } from 'vitest';
import { type Finding, type LocksOptions, openLocks } from '../../../src/index.ts';
import { documentedChecks } from './documented.ts';

/** What `locks.diagnose()` finds for the store of a URL. */
export async function diagnose(url: string, options: LocksOptions = {}): Promise<Finding[]> {
  await using locks = await openLocks(url, { ...options, connect: false });
  const findings = await locks.diagnose();
  expect(documentedChecks()).toEqual(expect.arrayContaining(findings.map(({ check }) => check)));
  return findings;
}

/** The findings that are not `ok`, in order: `redis-eviction-policy: fail`. */
export function problemsIn(findings: readonly Finding[]): string[] {
  return findings
    .filter(({ level }) => level !== 'ok')
    .map(({ check, level }) => `${check}: ${level}`)
    .sort();
}

export function findingOf(findings: readonly Finding[], check: string): Finding {
  const found = findings.find((finding) => finding.check === check);
  if (found === undefined) throw new Error(`no check ${check} among ${findings.map((each) => each.check)}`);
  return found;
}

/** For so long a set-up is diagnosed again. */
const AGAIN_MS = 30_000;

/**
 * Expects exactly these problems. On a busy machine a server may answer too late for a check, so
 * the set-up is diagnosed again if there are others.
 */
export async function expectProblems(
  diagnoseAgain: () => Promise<readonly Finding[]>,
  expected: readonly string[],
): Promise<readonly Finding[]> {
  for (const endMs = performance.now() + AGAIN_MS; ; ) {
    const findings = await diagnoseAgain();
    if (problemsIn(findings).join() !== expected.join() && performance.now() < endMs) continue;
    expect(problemsIn(findings)).toEqual(expected);
    return findings;
  }
}
