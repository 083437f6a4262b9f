import { InvalidArgumentError } from '../../../errors.ts';
import { checkKey, type Key } from '../key.ts';
import { hashText } from './hash.ts';
import type { Session } from './session.ts';

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

const KEPT_MAX = 5_000;

/** Finds the key of a name: `hashtextextended(name, 0)`, or what the user's function returns. */
export class KeyFinder {
  readonly #custom: ((name: string) => Key) | undefined;
  readonly #kept = new Map<string, LockKey>();

  constructor(custom: ((name: string) => Key) | undefined) {
    this.#custom = custom;
  }

  /** `undefined`: only the server knows the key. Throws when the user's function gives no key. */
  known(name: string, session: Session): LockKey | undefined {
    const kept = this.#kept.get(name);
    if (kept !== undefined) return kept;
    const key = this.#keyOf(name);
    if (typeof key !== 'string') return this.#keep(name, key);
    return session.hashesAlike ? this.#keep(name, hashText(key)) : undefined;
  }

  async find(name: string, session: Session): Promise<LockKey> {
    const known = this.known(name, session);
    return known ?? this.#keep(name, await session.hash(String(this.#keyOf(name))));
  }

  /** An `InvalidArgumentError` is not retried: the user's function would fail again. */
  #keyOf(name: string): Key {
    if (this.#custom === undefined) return name;
    let key: Key;
    try {
      key = this.#custom(name);
    } catch (cause) {
      const error = new InvalidArgumentError('key', `failed for ${JSON.stringify(name)}: ${String(cause)}`);
      throw Object.assign(error, { cause });
    }
    return checkKey(key);
  }

  #keep(name: string, key: Exclude<Key, string>): LockKey {
    if (this.#kept.size >= KEPT_MAX) this.#kept.clear();
    const found = lockKey(key);
    this.#kept.set(name, found);
    return found;
  }
}

function lockKey(key: Exclude<Key, string>): LockKey {
  const text = typeof key === 'bigint' ? String(key) : `${key.classId},${key.objectId}`;
  const companion = String(hashText(`holdfast queue ${text}`));
  if (typeof key === 'bigint') return { text, key: text, classId: null, objectId: null, companion };
  return { text, key: null, classId: String(key.classId), objectId: String(key.objectId), companion };
}

/** The lock as `pg_locks` shows it: classid, objid and objsubid. */
export function lockTag({ key, classId, objectId }: LockKey): string {
  if (key === null) return [Number(classId) >>> 0, Number(objectId) >>> 0, 2].join(' ');
  return lockTagOf(key);
}

/** The same for a key of 64 bits. */
export function lockTagOf(key: string): string {
  const bits = BigInt.asUintN(64, BigInt(key));
  return [bits >> 32n, bits & 0xffff_ffffn, 1].join(' ');
}
