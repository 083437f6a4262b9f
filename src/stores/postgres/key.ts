import { checkCount, checkName } from '../../checks.ts';
import { InvalidArgumentError } from '../../errors.ts';

/**
 * The key of an advisory lock. A string stands for `hashtextextended(string, 0)`, a `bigint` for 64
 * bits, and a pair for two numbers of 32 bits. A pair and a `bigint` are never the same lock.
 */
export type Key = string | bigint | { readonly classId: number; readonly objectId: number };

const INT4_MIN = -(2 ** 31);
const INT4_MAX = 2 ** 31 - 1;

export function checkKey(key: Key): Key {
  if (typeof key === 'string') return checkName(key, 'key');
  if (typeof key === 'bigint') {
    if (key !== BigInt.asIntN(64, key))
      throw new InvalidArgumentError('key', 'must fit into 64 bits, with its sign');
    return key;
  }
  if (typeof key !== 'object' || key === null)
    throw new InvalidArgumentError('key', 'must be a string, a bigint or { classId, objectId }');
  checkCount('key.classId', key.classId, INT4_MIN, INT4_MAX);
  checkCount('key.objectId', key.objectId, INT4_MIN, INT4_MAX);
  return key;
}

/** For people. */
export function showKey(key: Key): string {
  if (typeof key === 'object') return `${key.classId}, ${key.objectId}`;
  return String(key);
}
