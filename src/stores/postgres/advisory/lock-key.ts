import type { Key } from '../key.ts';
import { hashText } from './hash.ts';

/** One advisory lock as statements name it. Every value is text, as everything that we send. */
export interface LockKey {
  /** `7` or `1,2`: what it is known by among us. */
  readonly text: string;
  readonly key: string | null;
  readonly classId: string | null;
  readonly objectId: string | null;
  /** The companion lock, which those who wait share, so that whoever releases can see that somebody waits. */
  readonly line: string;
}

/** Held by every session of ours, shared, so that others can tell them from foreign ones. */
export const OURS = String(hashText('holdfast session'));

/** A string must have been hashed before. */
export function lockKey(key: Exclude<Key, string>): LockKey {
  const text = typeof key === 'bigint' ? String(key) : `${key.classId},${key.objectId}`;
  const line = String(hashText(`holdfast line ${text}`));
  if (typeof key === 'bigint') return { text, key: text, classId: null, objectId: null, line };
  return { text, key: null, classId: String(key.classId), objectId: String(key.objectId), line };
}

/** As `pg_locks` shows it: classid, objid and objsubid. */
export function placeOf({ key, classId, objectId }: Pick<LockKey, 'key' | 'classId' | 'objectId'>): string {
  if (key === null) return [unsigned(classId), unsigned(objectId), 2].join(' ');
  const bits = BigInt.asUintN(64, BigInt(key));
  return [bits >> 32n, bits & 0xffff_ffffn, 1].join(' ');
}

const unsigned = (text: string | null): number => Number(text) >>> 0;
