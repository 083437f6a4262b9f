import type { Claim } from './claim.ts';
import { Lock } from './lock.ts';
import type { LockKey } from './lock-key.ts';
import type { Session } from './session.ts';

/** All locks that this process has something to do with, and its claims by id. */
export class LockTable {
  readonly #locks = new Map<string, Lock>();

  get(key: string): Lock | undefined {
    return this.#locks.get(key);
  }

  of(key: LockKey, session: Session): Lock {
    let lock = this.#locks.get(key.text);
    if (lock === undefined) {
      lock = new Lock(key, session);
      this.#locks.set(key.text, lock);
    }
    return lock;
  }

  forgetIdle(lock: Lock): void {
    if (lock.isIdle && !lock.isArmed && this.#locks.get(lock.key.text) === lock)
      this.#locks.delete(lock.key.text);
  }

  /** The session is gone. Gives what it held, and leaves nothing of it: who waited stands in line again when it asks. */
  clear(): { readonly held: readonly Claim[]; readonly waiting: readonly Claim[] } {
    const locks = [...this.#locks.values()];
    this.#locks.clear();
    return {
      held: locks.flatMap((lock) => [...lock.users.values()].filter((claim) => claim.fence !== null)),
      waiting: locks.flatMap((lock) => [...lock.line.values()]),
    };
  }

  *held(): Iterable<Claim> {
    for (const lock of this.#locks.values()) {
      for (const claim of lock.users.values()) if (claim.fence !== null) yield claim;
    }
  }
}
