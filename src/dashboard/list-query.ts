import { badRequest } from './answers.ts';
import {
  EXPIRING_SHARE,
  LONG_HELD_MS,
  type LockKind,
  type LockList,
  type LockSort,
  type LockState,
  type LockSummary,
  type LockUse,
} from './api.ts';
import type { Scan } from './scan-loop.ts';

const LIMIT = 100;
const LIMIT_MAX = 1_000;

const USES: readonly LockUse[] = ['lock', 'once', 'rateLimit', 'schedule'];
const KINDS: readonly LockKind[] = ['exclusive', 'shared', 'permits'];
const STATES: readonly LockState[] = ['contended', 'long-held', 'expiring'];
const SORTS: readonly LockSort[] = ['name', 'waiters', 'holders', 'age', 'expiry'];

/** One of the words, or `null` when the parameter is absent or empty. */
export function choice<T extends string>(
  query: URLSearchParams,
  name: string,
  words: readonly T[],
): T | null {
  const value = query.get(name) ?? '';
  if (value === '') return null;
  const found = words.find((word) => word === value);
  if (found === undefined) throw badRequest(`${name} must be one of ${words.join(', ')}.`);
  return found;
}

export function useIn(query: URLSearchParams): LockUse | null {
  return choice(query, 'use', USES);
}

export function wholeNumber(query: URLSearchParams, name: string, otherwise: number, max: number): number {
  const text = query.get(name) ?? '';
  if (text === '') return otherwise;
  if (!/^\d{1,9}$/.test(text) || Number(text) > max)
    throw badRequest(`${name} must be a whole number from 0 to ${max}.`);
  return Number(text);
}

/** The part of a scan that a query of `GET /api/locks` asks for. */
export function listLocks(scan: Scan, query: URLSearchParams, nowMs: number): LockList {
  const [use, kind] = [useIn(query), choice(query, 'kind', KINDS)];
  const state = choice(query, 'state', STATES);
  const prefix = query.get('prefix') ?? '';
  const limit = wholeNumber(query, 'limit', LIMIT, LIMIT_MAX);
  const from = wholeNumber(query, 'cursor', 0, 1_000_000);
  const found = [...scan.locks.values()].filter(
    (lock) =>
      lock.name.startsWith(prefix) &&
      (use === null || lock.use === use) &&
      (kind === null || lock.kind === kind) &&
      (state === null || isIn(lock, state, nowMs)),
  );
  const compare = comparison(choice(query, 'sort', SORTS) ?? 'name');
  const isDescending = choice(query, 'order', ['asc', 'desc']) === 'desc';
  found.sort(isDescending ? (a, b) => compare(b, a) : compare);
  const locks = found.slice(from, from + limit);
  const next = from + limit < found.length && limit > 0 ? String(from + limit) : null;
  return { takenAtMs: scan.takenAtMs, total: found.length, isTruncated: scan.isTruncated, locks, next };
}

export function isIn(lock: LockSummary, state: LockState, nowMs: number): boolean {
  if (state === 'contended') return lock.waiterCount > 0;
  if (state === 'long-held') return lock.heldSinceMs !== null && nowMs - lock.heldSinceMs > LONG_HELD_MS;
  // The permits of a rate limit run out by themselves.
  if (lock.use === 'rateLimit') return false;
  return lock.holders.some(
    ({ expiresAtMs, leaseMs }) =>
      expiresAtMs !== null && leaseMs !== null && expiresAtMs - nowMs < leaseMs * EXPIRING_SHARE,
  );
}

type Compare = (a: LockSummary, b: LockSummary) => number;

/** In each order the name comes second, so that equal locks do not change places. */
function comparison(sort: LockSort): Compare {
  const byName: Compare = (a, b) => textOrder(a.name, b.name) || textOrder(a.use, b.use);
  const by: Record<LockSort, (lock: LockSummary) => number> = {
    name: () => 0,
    waiters: (lock) => lock.waiterCount,
    holders: (lock) => lock.holderCount,
    age: (lock) => -(lock.heldSinceMs ?? Number.POSITIVE_INFINITY),
    expiry: (lock) => lock.expiresAtMs ?? Number.MAX_SAFE_INTEGER,
  };
  const rankOf = by[sort];
  return (a, b) => {
    const [x, y] = [rankOf(a), rankOf(b)];
    return x === y ? byName(a, b) : x - y;
  };
}

function textOrder(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
