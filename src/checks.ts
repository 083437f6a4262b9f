import { InvalidArgumentError } from './errors.ts';

/** Checks at the edge: what passes here is never checked again. */

const DAY_MS = 86_400_000;
const NAME_BYTES_MAX = 512;
const OWNER_LENGTH_MAX = 128;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for.
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
/** Control, format, line and paragraph separators, surrogates, private and unassigned code points. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u;

/** Names: 1 to 512 bytes of UTF-8, no control characters, no lone surrogates. Compared byte by byte, never normalised. */
export function checkName(name: string, argument = 'name'): string {
  if (typeof name !== 'string')
    throw new InvalidArgumentError(argument, `must be a string, not ${typeof name}`);
  if (name === '') throw new InvalidArgumentError(argument, 'must not be empty');
  if (CONTROL.test(name)) throw new InvalidArgumentError(argument, 'must not contain control characters');
  // Three bytes a character is the most that UTF-8 takes, so short names need no count.
  if (name.length > NAME_BYTES_MAX / 3 && Buffer.byteLength(name) > NAME_BYTES_MAX) {
    throw new InvalidArgumentError(
      argument,
      `takes ${Buffer.byteLength(name)} bytes; ${NAME_BYTES_MAX} is the most`,
    );
  }
  if (!isWellFormed(name)) throw new InvalidArgumentError(argument, 'must not contain a lone surrogate');
  return name;
}

/** A lone surrogate cannot be encoded: backends would quietly store another name. */
function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}

export function checkDuration(
  argument: string,
  ms: number,
  also: { zero?: boolean; infinity?: boolean } = {},
): number {
  if (ms === Number.POSITIVE_INFINITY && also.infinity === true) return ms;
  if (ms === 0 && also.zero === true) return ms;
  if (!Number.isInteger(ms) || ms < 1 || ms > DAY_MS) {
    const extra = `${also.zero ? ', or 0' : ''}${also.infinity ? ', or Infinity' : ''}`;
    throw new InvalidArgumentError(
      argument,
      `must be whole milliseconds from 1 to ${DAY_MS}${extra}; got ${show(ms)}`,
    );
  }
  return ms;
}

export function checkCount(argument: string, count: number, min: number, max: number): number {
  if (!Number.isInteger(count) || count < min || count > max) {
    throw new InvalidArgumentError(
      argument,
      `must be a whole number from ${min} to ${max}; got ${show(count)}`,
    );
  }
  return count;
}

/** Permits are counted in 32 bits everywhere. */
const PERMITS_MAX = 2 ** 31 - 1;

export function checkPermits(permits: number): number {
  return checkCount('permits', permits, 1, PERMITS_MAX);
}

export function checkBoolean(argument: string, value: boolean): boolean {
  if (typeof value !== 'boolean')
    throw new InvalidArgumentError(argument, `must be true or false; got ${show(value)}`);
  return value;
}

export function checkFunction(argument: string, value: unknown): void {
  if (typeof value !== 'function')
    throw new InvalidArgumentError(argument, `must be a function; got ${show(value)}`);
}

export function checkOwner(owner: string): string {
  if (typeof owner !== 'string' || owner.length < 1 || owner.length > OWNER_LENGTH_MAX) {
    throw new InvalidArgumentError('owner', `must be a string of 1 to ${OWNER_LENGTH_MAX} characters`);
  }
  if (UNPRINTABLE.test(owner))
    throw new InvalidArgumentError('owner', 'must contain printable characters only');
  return owner;
}

/** Input can be anything, also a symbol or a megabyte of text. */
function show(value: unknown): string {
  const text =
    typeof value === 'string'
      ? JSON.stringify(value)
      : typeof value === 'object'
        ? 'an object'
        : String(value);
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
