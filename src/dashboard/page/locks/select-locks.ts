import { EXPIRING_SHARE, LONG_HELD_MS, type LockState, type LockSummary } from '../../api.ts';

/** The columns that a list can be sorted by. */
export type SortKey = 'name' | 'owner' | 'age' | 'lease' | 'waiting';

export interface Selection {
  /** Searched in the names of locks and in the owners of the holders shown, without regard to case. */
  readonly search: string;
  readonly use: string;
  readonly kind: string;
  readonly state: LockState | 'held' | '';
  readonly sort: SortKey;
  readonly isDescending: boolean;
}

export interface Selected {
  readonly locks: readonly LockSummary[];
  /** How many there are of each state, before the state itself is selected. */
  readonly counts: Readonly<Record<LockState | 'held' | 'all', number>>;
}

/** The states of a lock at that time by the server's clock. */
export function statesOf(lock: LockSummary, nowMs: number): LockState[] {
  const states: LockState[] = [];
  if (lock.waiterCount > 0) states.push('contended');
  if (lock.heldSinceMs !== null && nowMs - lock.heldSinceMs > LONG_HELD_MS) states.push('long-held');
  if (isExpiring(lock, nowMs)) states.push('expiring');
  return states;
}

/** Permits of a rate limit expire without renewal: that is how they work, and no reason to look. */
function isExpiring(lock: LockSummary, nowMs: number): boolean {
  if (lock.use === 'rateLimit') return false;
  return lock.holders.some(
    ({ expiresAtMs, leaseMs }) =>
      expiresAtMs !== null && leaseMs !== null && expiresAtMs - nowMs < leaseMs * EXPIRING_SHARE,
  );
}

function matches(lock: LockSummary, { search, use, kind }: Selection): boolean {
  if (use !== '' && lock.use !== use) return false;
  if (kind !== '' && lock.kind !== kind) return false;
  if (search === '') return true;
  const isIn = (text: string | null): boolean => text?.toLowerCase().includes(search) === true;
  return isIn(lock.name) || lock.holders.some(({ owner }) => isIn(owner));
}

type Value = string | number | null;

const VALUES: Readonly<Record<SortKey, (lock: LockSummary) => Value>> = {
  name: (lock) => lock.name,
  owner: (lock) => lock.holders[0]?.owner ?? null,
  // The oldest hold has the greatest age.
  age: (lock) => (lock.heldSinceMs === null ? null : -lock.heldSinceMs),
  lease: (lock) => lock.expiresAtMs,
  waiting: (lock) => lock.waiterCount,
};

/** Unknown values stand last in both directions. Equal values are in the order of their names. */
function comparison({ sort, isDescending }: Selection): (a: LockSummary, b: LockSummary) => number {
  const valueIn = VALUES[sort];
  const sign = isDescending ? -1 : 1;
  const byName = (a: LockSummary, b: LockSummary): number => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
  return (a, b) => {
    const left = valueIn(a);
    const right = valueIn(b);
    if (left === right) return byName(a, b);
    if (left === null || right === null) return left === null ? 1 : -1;
    return left < right ? -sign : sign;
  };
}

/** Filters, counts and sorts. Ten thousand locks take a few milliseconds. */
export function selectLocks(all: readonly LockSummary[], selection: Selection, nowMs: number): Selected {
  const counts = { all: 0, held: 0, contended: 0, 'long-held': 0, expiring: 0 };
  const chosen: LockSummary[] = [];
  const wanted: Selection = { ...selection, search: selection.search.trim().toLowerCase() };
  for (const lock of all) {
    if (!matches(lock, wanted)) continue;
    const states = statesOf(lock, nowMs);
    const isHeld = lock.holderCount > 0;
    counts.all += 1;
    if (isHeld) counts.held += 1;
    for (const state of states) counts[state] += 1;
    const { state } = selection;
    if (state === '' || (state === 'held' ? isHeld : states.includes(state))) chosen.push(lock);
  }
  return { locks: chosen.sort(comparison(selection)), counts };
}
