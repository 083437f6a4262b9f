import type { Key } from '../key.ts';
import { hashText } from './hash.ts';

/** One advisory lock as statements name it. All values are text, like every parameter sent. */
export interface LockKey {
  /** `7` or `1,2`: the name of the lock inside this process and in messages. */
  readonly text: string;
  readonly key: string | null;
  readonly classId: string | null;
  readonly objectId: string | null;
  /** The key of the companion lock. Sessions with waiters share it, so that a release finds them. */
  readonly companion: string;
}

/** The key of a lock that every session of Holdfast shares. Other programs' sessions do not. */
export const OURS = String(hashText('holdfast session'));

/** A key that is a string has to be hashed first. */
export function lockKey(key: Exclude<Key, string>): LockKey {
  const text = typeof key === 'bigint' ? String(key) : `${key.classId},${key.objectId}`;
  const companion = String(hashText(`holdfast queue ${text}`));
  if (typeof key === 'bigint') return { text, key: text, classId: null, objectId: null, companion };
  return { text, key: null, classId: String(key.classId), objectId: String(key.objectId), companion };
}

/** The lock as `pg_locks` shows it: classid, objid and objsubid. */
export function lockTag({ key, classId, objectId }: Pick<LockKey, 'key' | 'classId' | 'objectId'>): string {
  if (key === null) return [unsigned(classId), unsigned(objectId), 2].join(' ');
  return lockTagOf(key);
}

/** The same for a key of 64 bits. */
export function lockTagOf(key: string): string {
  const bits = BigInt.asUintN(64, BigInt(key));
  return [bits >> 32n, bits & 0xffff_ffffn, 1].join(' ');
}

const unsigned = (text: string | null): number => Number(text) >>> 0;
