import { expect } from 'vitest';
import { systemClock } from '../../../src/clock.ts';
import type { Finding, Store } from '../../../src/index.ts';
import { openStore } from '../../../src/open-store.ts';
import { documentedChecks } from './documented.ts';
import { problemsIn } from './findings.ts';

export interface Limits {
  readonly ttlMs?: number;
  readonly commandMs?: number;
}

/** Under load the checks may take longer than a command may. */
const LIMIT_MS = 30_000;

/** The findings of the store alone, without those that depend on the load of the machine. */
export async function storeFindings(
  store: Store,
  { ttlMs = 30_000, commandMs = 10_000 }: Limits = {},
): Promise<readonly Finding[]> {
  try {
    const signal = AbortSignal.timeout(LIMIT_MS);
    const findings =
      (await store.diagnose?.({ clock: systemClock, ttlMs, commandMs, limitMs: commandMs, signal })) ?? [];
    expect(documentedChecks()).toEqual(expect.arrayContaining(findings.map(({ check }) => check)));
    return findings;
  } finally {
    await store.close();
  }
}

export async function findingsAt(url: string, limits: Limits = {}): Promise<readonly Finding[]> {
  return await storeFindings(await openStore(url, {}), limits);
}

/** `postgres-pooler: warn`, sorted. */
export async function problemsAt(url: string, limits: Limits = {}): Promise<string[]> {
  return problemsIn(await findingsAt(url, limits));
}
