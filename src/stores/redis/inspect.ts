import { listScript } from '../../generated/redis-scripts.ts';
import type { StoredClaim } from '../../store/store.ts';
import type { Keys } from './keys.ts';
import { modeIn } from './mode-text.ts';
import type { ReadinessCheck } from './readiness-check.ts';
import { fieldsOf } from './server-info.ts';

/** A score below 0 is a holder's: its expiry in ms, less this. One above it is an observer's. */
const FAR = 2 ** 52;

const EXCLUSIVE = /^(\d{16})\+?(?:@(\d+))? (.+)$/s;
const MANY = /^~\w+ \d+ \d+$/;
const WAITER = /^w (\S+) (\d+) (\d+) (\d+) (\S+) (.*)$/s;
const HOLDER = /^h (\S+) (\d+) (\d+) (\d+) (.*)$/s;

/** Decodes the reply of `read.lua`; `scripts/value.lua` and `scripts/entry.lua` have the formats. */
export function claimsIn(reply: unknown): StoredClaim[] {
  const [time, value, ttlMs, queue, info] = reply as [string, string | null, number, string[], string[]];
  const nowUs = Number(time);
  const entries = fieldsOf(info);
  const queued = [...fieldsOf(queue)].flatMap(([id, score]) =>
    queuedClaim(id, Number(score), String(entries.get(id) ?? ''), nowUs),
  );
  const waiters = queued.filter(({ granted }) => !granted);
  if (value === null) return waiters;
  if (!MANY.test(value)) return [oneHolder(value, Number(ttlMs), entries, nowUs), ...waiters];
  const holders = queued.filter(({ granted }) => granted);
  return [...holders.sort((a, b) => ((a.fence ?? 0n) < (b.fence ?? 0n) ? -1 : 1)), ...waiters];
}

/** `value`, `ttlMs`: of the plain key. */
function oneHolder(
  value: string,
  ttlMs: number,
  entries: ReadonlyMap<string, unknown>,
  nowUs: number,
): StoredClaim {
  const expiresInMs = ttlMs < 0 ? null : ttlMs;
  const ours = EXCLUSIVE.exec(value);
  const mode = { kind: 'exclusive' } as const;
  if (ours === null)
    return { id: value, granted: true, mode, fence: null, heldForMs: null, expiresInMs, note: null };
  const [, fence = '', granted = fence, id = ''] = ours;
  const note = HOLDER.exec(String(entries.get(id) ?? ''))?.[5] ?? '';
  const heldForMs = sinceMs(granted, nowUs);
  return { id, granted: true, mode, fence: BigInt(fence), heldForMs, expiresInMs, note };
}

/** A waiter, or one of several holders. None: it has expired. */
function queuedClaim(id: string, score: number, entry: string, nowUs: number): StoredClaim[] {
  const holder = score < 0 ? HOLDER.exec(entry) : null;
  const waiter = score >= 1 && score < FAR ? WAITER.exec(entry) : null;
  const endsMs = holder === null ? Number(waiter?.[3] ?? 0) : score + FAR;
  const expiresInMs = endsMs - nowUs / 1000;
  if (expiresInMs <= 0) return [];
  if (holder === null) {
    const [, mode = '', , , , , note = ''] = waiter ?? [];
    return [{ id, granted: false, mode: modeIn(mode), fence: null, heldForMs: null, expiresInMs, note }];
  }
  const [, mode = '', fence = '', granted = '', , note = ''] = holder;
  const heldForMs = sinceMs(granted, nowUs);
  return [{ id, granted: true, mode: modeIn(mode), fence: BigInt(fence), heldForMs, expiresInMs, note }];
}

/** Not negative, although the server's clock may have been set back. */
function sinceMs(grantedUs: string, nowUs: number): number {
  return Math.max((nowUs - Number(grantedUs)) / 1000, 0);
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

/** The locks that begin with `namePrefix`, each once. One that changes meanwhile may be missed. */
export async function* listNames(
  readiness: ReadinessCheck,
  keys: Keys,
  namePrefix: string,
  signal?: AbortSignal,
): AsyncIterable<string> {
  const seen = new Set<string>();
  const clientPrefix = readiness.connection.keyPrefix;
  const patterns = keys.patterns(clientPrefix, namePrefix);
  const send = (name: string, args: string[]) => readiness.send(name, args, signal);
  for await (const page of scanKeys(send, patterns)) {
    const fresh = page.flatMap((key) => {
      const name = keys.nameIn(key.slice(clientPrefix.length));
      if (name === null || seen.has(name)) return [];
      seen.add(name);
      return [name];
    });
    yield* await locksAmong(readiness, keys, fresh, signal);
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
  const reply = await readiness.run(listScript, all, [keys.prefix === '' ? '0' : '1'], signal);
  return names.filter((_, index) => Number((reply as unknown[])[index]) === 1);
}
