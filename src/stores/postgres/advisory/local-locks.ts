import type { Claim } from './claim.ts';
import type { LockKey } from './key-parameters.ts';
import { Lock } from './lock.ts';
import type { Session } from './session.ts';

/** The locks that this process holds or waits for, by key. */
export class LocalLocks {
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
    if (lock.isIdle && !lock.isAnnounced && this.#locks.get(lock.key.text) === lock)
      this.#locks.delete(lock.key.text);
  }

  /**
   * Forgets all locks, because their session has ended, and returns the claims, held and queued. A
   * queued claim enters the queue again when its caller asks again.
   */
  clear(): Claim[] {
    const locks = [...this.#locks.values()];
    this.#locks.clear();
    for (const lock of locks) lock.yieldTimer?.cancel();
    return locks.flatMap((lock) => [...lock.users.values(), ...lock.queued]);
  }

  *held(): Iterable<Claim> {
    for (const lock of this.#locks.values()) {
      for (const claim of lock.users.values()) if (claim.fence !== null) yield claim;
    }
  }
}
