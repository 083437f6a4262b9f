import { createLocks, type Locks, type LocksOptions, memoryStore, type Store } from '../../../src/index.ts';
import {
  type Fault,
  type FaultyStore,
  faultyStore,
  type StoreCall,
  type VirtualClock,
  virtualClock,
} from '../../../src/testing/index.ts';
import { connectionTo } from './memory-connection.ts';

/** Several Locks, as several processes would have them, over one memory store in virtual time. */
export interface World {
  readonly clock: VirtualClock;
  readonly store: Store;
  /** Another process. */
  locks(options?: LocksOptions): Locks;
  /** Another process whose calls to the store fail as planned. */
  faulty(
    plan: (call: StoreCall) => Fault | null,
    options?: LocksOptions,
  ): { locks: Locks; store: FaultyStore };
}

export function makeWorld(): World {
  const clock = virtualClock();
  const store = memoryStore({ clock });
  return {
    clock,
    store,
    locks: (options = {}) => createLocks(connectionTo(store), { clock, ...options }),
    faulty(plan, options = {}) {
      const faulty = faultyStore(connectionTo(store), plan);
      return { store: faulty, locks: createLocks(faulty, { clock, ...options }) };
    },
  };
}

/** The present state of a promise, without waiting for it. */
export function outcomeOf<T>(promise: Promise<T>): {
  state: 'pending' | 'kept' | 'broken';
  value?: T;
  error?: unknown;
} {
  const outcome: { state: 'pending' | 'kept' | 'broken'; value?: T; error?: unknown } = { state: 'pending' };
  promise.then(
    (value) => {
      outcome.state = 'kept';
      outcome.value = value;
    },
    (error: unknown) => {
      outcome.state = 'broken';
      outcome.error = error;
    },
  );
  return outcome;
}

/** The code of an error, for `expect(...)`. */
export const codeOf = (error: unknown): unknown => (error as { code?: unknown }).code;
