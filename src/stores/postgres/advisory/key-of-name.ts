import { InvalidArgumentError } from '../../../errors.ts';
import { checkKey, type Key } from '../key.ts';
import { hashText } from './hash.ts';
import { type LockKey, lockKey } from './key-parameters.ts';
import type { Session } from './session.ts';

/** How many keys are cached. */
const KEPT_MAX = 5_000;

/** Finds the key of a name: `hashtextextended(name, 0)`, or what the user's function returns. */
export class KeyFinder {
  readonly #custom: ((name: string) => Key) | undefined;
  readonly #kept = new Map<string, LockKey>();

  constructor(custom: ((name: string) => Key) | undefined) {
    this.#custom = custom;
  }

  /**
   * `undefined` when only the server knows the key. Throws `InvalidArgumentError` when the user's
   * function throws or returns something that is not a key.
   */
  known(name: string, session: Session): LockKey | undefined {
    const kept = this.#kept.get(name);
    if (kept !== undefined) return kept;
    const key = this.#keyOf(name);
    if (typeof key !== 'string') return this.#keep(name, lockKey(key));
    return session.hashesAlike ? this.#keep(name, lockKey(hashText(key))) : undefined;
  }

  /** Asks the server where only it knows the key. */
  async find(name: string, session: Session): Promise<LockKey> {
    const known = this.known(name, session);
    return known ?? this.#keep(name, lockKey(await session.hash(String(this.#keyOf(name)))));
  }

  #keyOf(name: string): Key {
    return this.#custom === undefined ? name : checkKey(asked(this.#custom, name));
  }

  #keep(name: string, key: LockKey): LockKey {
    if (this.#kept.size >= KEPT_MAX) this.#kept.clear();
    this.#kept.set(name, key);
    return key;
  }
}

/** An `InvalidArgumentError` is not retried: the user's function would fail again. */
function asked(custom: (name: string) => Key, name: string): Key {
  try {
    return custom(name);
  } catch (cause) {
    const error = new InvalidArgumentError('key', `failed for ${JSON.stringify(name)}: ${String(cause)}`);
    throw Object.assign(error, { cause });
  }
}
