import type { Locks } from 'holdfast';

/** One way to take a lock. `acquire` waits and resolves to the release. */
export interface Contender {
  readonly name: string;
  acquire(lock: string): Promise<() => Promise<unknown>>;
  close(): Promise<void> | void;
}

/** Holdfast's own way. `end` closes what its user has opened. */
export function holdfastOn(locks: Locks, end: () => Promise<void> | void, name = 'holdfast'): Contender {
  return {
    name,
    async acquire(lock) {
      const hold = await locks.mutex(lock).acquire();
      return () => hold.release();
    },
    async close() {
      await locks.close();
      await end();
    },
  };
}
