import type { Core } from '../core.ts';
import type { AcquireOptions } from '../options.ts';
import type { Mode } from '../store/store.ts';
import { type Lockable, NamedLock } from './lockable.ts';

/** The whole lock. */
export const EXCLUSIVE: Mode = { kind: 'exclusive' };

/** One holder at a time. */
export function mutex(core: Core, name: string, options?: AcquireOptions): Lockable {
  return new NamedLock(core, name, options, () => EXCLUSIVE);
}
