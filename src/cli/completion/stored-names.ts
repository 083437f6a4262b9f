import { existsSync } from 'node:fs';
import { openStore, schemeOf } from '../../open-store.ts';
import type { Store } from '../../store/store.ts';
import { slotIn, storedName, USES, usedName } from '../../use.ts';
import { defaultStoreFile, storeUrl } from '../store-url.ts';
import { copyable, typed } from '../text.ts';
import { rejectAfter } from '../time-limit.ts';
import type { Candidate, Plan } from './plan.ts';

/** A person has pressed a key and waits. */
const ANSWER_MS = 1_000;
const NAMES_MAX = 200;
/** Connecting to these may create tables, which the press of a key must not do. */
const WITH_TABLES = ['postgres', 'postgresql', 'mysql'];

/**
 * Names or claims from the store, or nothing when it is slow, out of reach, or does not exist yet.
 */
export async function storedCandidates(
  plan: Extract<Plan, { kind: 'names' | 'claims' }>,
  current: string,
): Promise<Candidate[]> {
  try {
    const url = urlWithoutWrites(plan.store);
    if (url === null) return [];
    return await rejectAfter(ANSWER_MS, look(await openStore(url, {}), plan, typed(current)));
  } catch {
    return [];
  }
}

function urlWithoutWrites(option: string | undefined): string | null {
  const file = defaultStoreFile(option);
  if (file !== null && !existsSync(file)) return null;
  const url = storeUrl(option);
  const scheme = schemeOf(url);
  const path = decodeURIComponent(url.replace(/^sqlite:(?:\/\/(?=\/))?/i, ''));
  if (WITH_TABLES.includes(scheme) || (scheme === 'sqlite' && !existsSync(path))) return null;
  return url;
}

async function look(
  store: Store,
  plan: Extract<Plan, { kind: 'names' | 'claims' }>,
  prefix: string,
): Promise<Candidate[]> {
  if (plan.kind === 'claims') {
    const claims = await store.read(storedName(plan.use, typed(plan.name)));
    return claims.map(({ id, granted }) => ({
      text: copyable(id),
      description: granted ? 'holds it' : 'waits',
    }));
  }
  const names = new Set<string>();
  for (const use of plan.use === undefined ? USES : [plan.use]) {
    for await (const stored of store.list(storedName(use, prefix))) {
      const used = usedName(stored);
      if (used.use === use && slotIn(stored) === null) names.add(copyable(used.name));
      if (names.size === NAMES_MAX) break;
    }
  }
  return [...names].sort().map((text) => ({ text, description: '' }));
}
