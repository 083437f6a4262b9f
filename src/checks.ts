import { InvalidArgumentError, UnsupportedError } from './errors.ts';
import { givenName } from './primitives/namespace.ts';
import type { Store } from './store/store.ts';

/** Checks at the edge: what passes here is never checked again. Each says the whole rule and what it got. */

export const DAY_MS = 86_400_000;
const NAME_BYTES_MAX = 512;
const OWNER_LENGTH_MAX = 128;
/** Control characters, and lone surrogates: those cannot be encoded, and backends would quietly store another name. */
const UNNAMABLE = /[\p{Cc}\p{Cs}]/u;
/** Control, format, line and paragraph separators, surrogates, private and unassigned code points. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u;

export function wrong(argument: string, rule: string, got: unknown): InvalidArgumentError {
  return new InvalidArgumentError(argument, `must be ${rule}; got ${show(got)}`);
}

/** Names: 1 to 512 bytes of UTF-8, no control characters, no lone surrogates. Compared byte by byte, never normalised. */
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

/** The name of a lock as it stands in the store, for people who look: a user's name, or one of a kind with names of its own. */
export function checkStoredName(name: string): string {
  checkName(typeof name === 'string' ? givenName(name) : name);
  return name;
}

/** `also`: what else is allowed, in words. */
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

export function checkType<T>(argument: string, value: T, type: 'boolean' | 'function' | 'object'): T {
  if (typeof value === type && value !== null) return value;
  throw wrong(argument, `of type ${type}`, value);
}

export function checkOwner(owner: string): void {
  const isText = typeof owner === 'string' && owner !== '' && owner.length <= OWNER_LENGTH_MAX;
  if (!isText || UNPRINTABLE.test(owner))
    throw wrong('owner', `1 to ${OWNER_LENGTH_MAX} printable characters`, owner);
}

/** Throws `UnsupportedError` for a primitive that this store cannot have. */
export function checkTrait({ traits }: Store, trait: 'counting' | 'remembers', primitive: string): void {
  if (!traits[trait]) throw new UnsupportedError(`This store has no ${primitive}`);
}

/** Input can be anything, also a symbol, a megabyte of text or an object that has no text. */
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
