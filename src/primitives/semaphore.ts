import { checkCount, checkPermits, checkTrait, checkType } from '../checks.ts';
import type { Core } from '../core.ts';
import type { Hold } from '../hold/hold.ts';
import type { AcquireOptions } from '../options.ts';
import type { Mode } from '../store/store.ts';
import { type Lockable, NamedLock } from './lockable.ts';

/** When making one, `permits` is the capacity. */
export interface SemaphoreOptions extends AcquireOptions {
  readonly permits: number;
}

/** When acquiring, `permits` is how many to take: 1 unless set. */
export interface PermitOptions extends AcquireOptions {
  readonly permits?: number | undefined;
}

/**
 * At most `permits` in use at a time. All programs must agree on the capacity:
 * `ModeMismatchError` otherwise.
 */
export interface Semaphore extends Lockable<Hold, PermitOptions> {}

export function semaphore(core: Core, name: string, options: SemaphoreOptions): Semaphore {
  checkTrait(core.store, 'counting', 'semaphores');
  checkType('options', options, 'object');
  const { permits: of, ...defaults } = options;
  checkPermits(of);
  const modeOf = (call: Partial<PermitOptions> | undefined): Mode => ({
    kind: 'permits',
    count: checkCount('permits', call?.permits ?? 1, 1, of),
    of,
  });
  return new NamedLock<PermitOptions>(core, name, defaults, modeOf, ['permits']);
}
