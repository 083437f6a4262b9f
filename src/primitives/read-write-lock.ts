import type { Core } from '../core.ts';
import type { AcquireOptions } from '../options.ts';
import type { Mode } from '../store/store.ts';
import { type Lockable, NamedLock } from './lockable.ts';
import { mutex } from './mutex.ts';

const SHARED: Mode = { kind: 'shared' };

/** Many readers or one writer. A waiting writer is not overtaken by later readers. */
export interface ReadWriteLock {
  readonly read: Lockable;
  /** The same as a mutex of that name. */
  readonly write: Lockable;
}

export function readWriteLock(core: Core, name: string, options?: AcquireOptions): ReadWriteLock {
  return { read: new NamedLock(core, name, options, () => SHARED), write: mutex(core, name, options) };
}
