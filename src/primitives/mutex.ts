import type { Core } from '../core.ts';
import type { AcquireOptions } from '../options.ts';
import type { Mode } from '../store/store.ts';
import { NamedLock } from './lockable.ts';

/** The whole lock. */
export const EXCLUSIVE: Mode = { kind: 'exclusive' };

const exclusive = (): Mode => EXCLUSIVE;

/** One holder at a time. */
export class Mutex extends NamedLock {
  constructor(core: Core, name: string, options?: AcquireOptions) {
    super(core, name, options, exclusive);
  }
}
