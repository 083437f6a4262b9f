import type { StoredClaim } from '../../store/store.ts';
import { modeIn } from './mode-text.ts';

/** A score below 0 is a holder's: its expiry in ms, less this. A score above it is an observer's. */
const FAR = 2 ** 52;

const EXCLUSIVE = /^(\d{16})\+?(?:@(\d+))? (.+)$/s;
const MANY = /^~\w+ \d+ \d+$/;
const WAITER = /^w (\S+) (\d+) (\d+) (\d+) (\S+) (.*)$/s;
const HOLDER = /^h (\S+) (\d+) (\d+) (\d+) (.*)$/s;

/** Decodes what `read.lua` gives; `scripts/value.lua` and `scripts/entry.lua` say how it is written. */
export function claimsIn(reply: unknown): StoredClaim[] {
  const [time, value, ttlMs, line, info] = reply as [string, string | null, number, string[], string[]];
  const nowUs = Number(time);
  const entries = new Map(pairs(info));
  const holders = MANY.test(value ?? '')
    ? manyHolders(line, entries, nowUs)
    : oneHolder(value, Number(ttlMs), entries, nowUs);
  return [...holders, ...waiters(line, entries, nowUs)];
}

function oneHolder(
  value: string | null,
  ttlMs: number,
  entries: ReadonlyMap<string, string>,
  nowUs: number,
): StoredClaim[] {
  if (value === null) return [];
  const expiresInMs = ttlMs < 0 ? null : ttlMs;
  const ours = EXCLUSIVE.exec(value);
  const mode = { kind: 'exclusive' } as const;
  if (ours === null) {
    return [{ id: value, granted: true, mode, fence: null, heldForMs: null, expiresInMs, note: null }];
  }
  const [, fence = '', granted = fence, id = ''] = ours;
  const note = HOLDER.exec(entries.get(id) ?? '')?.[5] ?? '';
  return [
    { id, granted: true, mode, fence: BigInt(fence), heldForMs: sinceMs(granted, nowUs), expiresInMs, note },
  ];
}

function manyHolders(
  line: readonly string[],
  entries: ReadonlyMap<string, string>,
  nowUs: number,
): StoredClaim[] {
  const claims: StoredClaim[] = [];
  for (const [id, score] of pairs(line)) {
    const expiresInMs = Number(score) + FAR - nowUs / 1000;
    const entry = HOLDER.exec(entries.get(id) ?? '');
    if (Number(score) >= 0 || expiresInMs <= 0 || entry === null) continue;
    const [, mode = '', fence = '', granted = '', , note = ''] = entry;
    const heldForMs = sinceMs(granted, nowUs);
    claims.push({
      id,
      granted: true,
      mode: modeIn(mode),
      fence: BigInt(fence),
      heldForMs,
      expiresInMs,
      note,
    });
  }
  return claims.sort((a, b) => ((a.fence ?? 0n) < (b.fence ?? 0n) ? -1 : 1));
}

function waiters(
  line: readonly string[],
  entries: ReadonlyMap<string, string>,
  nowUs: number,
): StoredClaim[] {
  const claims: StoredClaim[] = [];
  for (const [id, score] of pairs(line)) {
    const entry = WAITER.exec(entries.get(id) ?? '');
    if (Number(score) < 1 || Number(score) >= FAR || entry === null) continue;
    const [, mode = '', , until = '', , , note = ''] = entry;
    const expiresInMs = Number(until) - nowUs / 1000;
    if (expiresInMs <= 0) continue;
    claims.push({ id, granted: false, mode: modeIn(mode), fence: null, heldForMs: null, expiresInMs, note });
  }
  return claims;
}

/** By the server's clock, which may have been set back since. */
function sinceMs(grantedUs: string, nowUs: number): number {
  return Math.max((nowUs - Number(grantedUs)) / 1000, 0);
}

function pairs(flat: readonly string[]): Array<[string, string]> {
  const result: Array<[string, string]> = [];
  for (let index = 0; index + 1 < flat.length; index += 2)
    result.push([flat[index] ?? '', flat[index + 1] ?? '']);
  return result;
}
