import { listScript } from '../../generated/redis-scripts.ts';
import type { StoredClaim } from '../../store/store.ts';
import { runAlone, sendAlone } from './call.ts';
import type { Keys } from './keys.ts';
import { modeIn } from './mode-text.ts';
import type { ReadinessCheck } from './readiness-check.ts';

/**
 * A score below 0 is a holder's: its expiry in ms, less this. A score above it is an observer's.
 */
const FAR = 2 ** 52;

const EXCLUSIVE = /^(\d{16})\+?(?:@(\d+))? (.+)$/s;
const MANY = /^~\w+ \d+ \d+$/;
const WAITER = /^w (\S+) (\d+) (\d+) (\d+) (\S+) (.*)$/s;
const HOLDER = /^h (\S+) (\d+) (\d+) (\d+) (.*)$/s;

/** One lock as `read.lua` gives it. */
interface Snapshot {
  readonly nowUs: number;
  /** The value of the plain key, and how long it lives; negative: for ever. */
  readonly value: string | null;
  readonly ttlMs: number;
  /** Members with their scores. */
  readonly queue: ReadonlyArray<readonly [string, string]>;
  /** The info entries, by claim. */
  readonly entries: ReadonlyMap<string, string>;
}

/** Decodes the reply of `read.lua`; `scripts/value.lua` and `scripts/entry.lua` have the formats. */
export function claimsIn(reply: unknown): StoredClaim[] {
  const [time, value, ttlMs, queue, info] = reply as [string, string | null, number, string[], string[]];
  const snapshot: Snapshot = {
    nowUs: Number(time),
    value,
    ttlMs: Number(ttlMs),
    queue: pairs(queue),
    entries: new Map(pairs(info)),
  };
  const holders = MANY.test(value ?? '') ? manyHolders(snapshot) : oneHolder(snapshot);
  return [...holders, ...waiters(snapshot)];
}

function oneHolder({ value, ttlMs, entries, nowUs }: Snapshot): StoredClaim[] {
  if (value === null) return [];
  const expiresInMs = ttlMs < 0 ? null : ttlMs;
  const ours = EXCLUSIVE.exec(value);
  const mode = { kind: 'exclusive' } as const;
  if (ours === null) {
    return [{ id: value, granted: true, mode, fence: null, heldForMs: null, expiresInMs, note: null }];
  }
  const [, fence = '', granted = fence, id = ''] = ours;
  const note = HOLDER.exec(entries.get(id) ?? '')?.[5] ?? '';
  const heldForMs = sinceMs(granted, nowUs);
  return [{ id, granted: true, mode, fence: BigInt(fence), heldForMs, expiresInMs, note }];
}

function manyHolders({ queue, entries, nowUs }: Snapshot): StoredClaim[] {
  const claims = queue.flatMap(([id, score]): StoredClaim[] => {
    const expiresInMs = Number(score) + FAR - nowUs / 1000;
    const entry = HOLDER.exec(entries.get(id) ?? '');
    if (Number(score) >= 0 || expiresInMs <= 0 || entry === null) return [];
    const [, mode = '', fence = '', granted = '', , note = ''] = entry;
    const heldForMs = sinceMs(granted, nowUs);
    return [{ id, granted: true, mode: modeIn(mode), fence: BigInt(fence), heldForMs, expiresInMs, note }];
  });
  return claims.sort((a, b) => ((a.fence ?? 0n) < (b.fence ?? 0n) ? -1 : 1));
}

function waiters({ queue, entries, nowUs }: Snapshot): StoredClaim[] {
  return queue.flatMap(([id, score]): StoredClaim[] => {
    const entry = WAITER.exec(entries.get(id) ?? '');
    if (Number(score) < 1 || Number(score) >= FAR || entry === null) return [];
    const [, mode = '', , until = '', , , note = ''] = entry;
    const expiresInMs = Number(until) - nowUs / 1000;
    if (expiresInMs <= 0) return [];
    return [{ id, granted: false, mode: modeIn(mode), fence: null, heldForMs: null, expiresInMs, note }];
  });
}

/** Not negative, although the server's clock may have been set back. */
function sinceMs(grantedUs: string, nowUs: number): number {
  return Math.max((nowUs - Number(grantedUs)) / 1000, 0);
}

function pairs(flat: readonly string[]): Array<[string, string]> {
  const result: Array<[string, string]> = [];
  for (let index = 0; index + 1 < flat.length; index += 2)
    result.push([flat[index] ?? '', flat[index + 1] ?? '']);
  return result;
}

/** Keys that one SCAN looks at: many for speed, but few enough not to delay other commands. */
const PAGE = 500;

/** The keys that match one of the patterns, in pages. A key may come more than once. */
export async function* scanKeys(
  send: (name: string, args: string[]) => Promise<unknown>,
  patterns: readonly string[],
): AsyncIterable<readonly string[]> {
  for (const pattern of patterns) {
    let cursor = '0';
    do {
      const page = await send('scan', [cursor, 'MATCH', pattern, 'COUNT', `${PAGE}`]);
      const [next, found] = page as [string, string[]];
      cursor = String(next);
      yield found;
    } while (cursor !== '0');
  }
}

/**
 * The names of the locks that begin with `namePrefix`, each once. A lock that is acquired or released
 * meanwhile may be missed.
 */
export async function* listNames(
  readiness: ReadinessCheck,
  keys: Keys,
  namePrefix: string,
  signal?: AbortSignal,
): AsyncIterable<string> {
  const seen = new Set<string>();
  const clientPrefix = readiness.connection.keyPrefix;
  const patterns = keys.patterns(clientPrefix, namePrefix);
  const send = (name: string, args: string[]) => sendAlone(readiness, name, args, signal);
  for await (const page of scanKeys(send, patterns)) {
    const fresh = new Set<string>();
    for (const key of page) {
      const name = keys.nameIn(key.slice(clientPrefix.length));
      if (name !== null && !seen.has(name)) fresh.add(name);
    }
    for (const name of fresh) seen.add(name);
    yield* await locksAmong(readiness, keys, [...fresh], signal);
  }
}

/** With an empty prefix, any key of the database may look like a lock. */
export async function locksAmong(
  readiness: ReadinessCheck,
  keys: Keys,
  names: readonly string[],
  signal?: AbortSignal,
): Promise<string[]> {
  if (names.length === 0) return [];
  const all = names.flatMap((name) => [keys.of(name).plain, keys.of(name).queue]);
  const reply = await runAlone(readiness, listScript, all, [keys.prefix === '' ? '0' : '1'], signal);
  return names.filter((_, index) => Number((reply as unknown[])[index]) === 1);
}
