import { InvalidArgumentError, UnsupportedError } from './errors.ts';
import type { Store } from './store/store.ts';

/** Arguments are checked here and nowhere else. Each error states the whole rule and the value. */

export const DAY_MS = 86_400_000;
const NAME_BYTES_MAX = 512;
const OWNER_LENGTH_MAX = 128;
/**
 * Control characters, and lone surrogates: lone surrogates cannot be encoded, and backends would
 * store another name.
 */
const UNNAMABLE = /[\p{Cc}\p{Cs}]/u;
/** Control, format, line and paragraph separators, surrogates, private and unassigned code points. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u;

export function wrong(argument: string, rule: string, got: unknown): InvalidArgumentError {
  return new InvalidArgumentError(argument, `must be ${rule}; got ${show(got)}`);
}

/**
 * Names: 1 to 512 bytes of UTF-8, no control characters, no lone surrogates. Compared byte by byte,
 * never normalised.
 */
export function checkName(name: string, argument = 'name'): string {
  const isRight =
    typeof name === 'string' &&
    name !== '' &&
    !UNNAMABLE.test(name) &&
    // Three bytes a character is the most that UTF-8 takes, so short names need no count.
    (name.length <= NAME_BYTES_MAX / 3 || Buffer.byteLength(name) <= NAME_BYTES_MAX);
  if (isRight) return name;
  throw wrong(argument, `1 to ${NAME_BYTES_MAX} bytes without control characters and lone surrogates`, name);
}

/** `also`: further allowed values, in words. */
export function checkDuration(
  argument: string,
  ms: number,
  also: '' | ', or Infinity' | ', or 0, or Infinity' = '',
): number {
  if (typeof ms === 'number' && also.includes(` ${ms}`)) return ms;
  return checkCount(argument, ms, 1, DAY_MS, also);
}

export function checkCount(argument: string, count: number, min: number, max: number, also = ''): number {
  if (Number.isInteger(count) && count >= min && count <= max) return count;
  throw wrong(argument, `a whole number from ${min} to ${max}${also}`, count);
}

/** Permits are counted in 32 bits everywhere. */
const PERMITS_MAX = 2 ** 31 - 1;

export function checkPermits(permits: number): number {
  return checkCount('permits', permits, 1, PERMITS_MAX);
}

export function checkType<T>(
  argument: string,
  value: T,
  type: 'boolean' | 'function' | 'object' | 'string',
): T {
  if (typeof value === type && value !== null) return value;
  throw wrong(argument, `of type ${type}`, value);
}

/**
 * Refuses options that are not known: plain JavaScript would otherwise ignore `{ ttl: 5_000 }`
 * silently. A key whose value is `undefined` counts as left out.
 */
export function checkKeys<T>(options: T, known: readonly string[], argument = 'options'): T {
  checkType(argument, options, 'object');
  for (const [key, value] of Object.entries(options as object)) {
    if (value === undefined || known.includes(key)) continue;
    const near = nearest(key, known);
    const hint = near === null ? `known: ${known.join(', ')}` : `did you mean ${near}?`;
    throw new InvalidArgumentError(argument, `has an unknown key ${show(key)}; ${hint}`);
  }
  return options;
}

/** One try does not wait: silently ignored, `waitMs` would make it look as if it did. */
export function checkOneTry(options: object | undefined, waits: string): void {
  if (options == null || !Object.hasOwn(options, 'waitMs')) return;
  const { waitMs } = options as { waitMs?: unknown };
  if (waitMs !== undefined)
    throw new InvalidArgumentError('waitMs', `is no option of one try; ${waits} waits that long`);
}

/** The known key that a misspelled one most likely stands for; `null` when none is close. */
function nearest(key: string, known: readonly string[]): string | null {
  const lower = key.toLowerCase();
  const scored = known.map((each) => {
    const other = each.toLowerCase();
    // `ttl` for `ttlMs`, `timeoutMs` for `timeout`: a missing or an added unit.
    const isPrefix = other.startsWith(lower) || lower.startsWith(other.replace(/ms$/, ''));
    const distance = other === `${lower}ms` ? 0 : isPrefix ? 1 : editDistance(lower, other);
    return { each, distance };
  });
  const [best] = scored.sort((a, b) => a.distance - b.distance);
  return best !== undefined && best.distance <= Math.max(2, key.length / 3) ? best.each : null;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, n) => n);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

export function checkOwner(owner: string): void {
  const isText = typeof owner === 'string' && owner !== '' && owner.length <= OWNER_LENGTH_MAX;
  if (!isText || UNPRINTABLE.test(owner))
    throw wrong('owner', `1 to ${OWNER_LENGTH_MAX} printable characters`, owner);
}

/** Throws `UnsupportedError` for a primitive that this store does not support. */
export function checkTrait({ traits }: Store, trait: 'counting' | 'remembers', primitive: string): void {
  if (!traits[trait]) throw new UnsupportedError(`This store has no ${primitive}`);
}

/** Input can be anything: a symbol, a megabyte of text, an object that cannot be converted to text. */
export function show(value: unknown): string {
  if (value instanceof Error) return String(value);
  if (Array.isArray(value)) return `a list of ${value.length}`;
  const text =
    typeof value === 'string'
      ? JSON.stringify(value)
      : value !== null && typeof value === 'object'
        ? 'an object'
        : String(value);
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
