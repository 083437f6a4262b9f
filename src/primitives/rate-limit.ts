import { checkCount, checkDuration, checkName, checkPermits, checkTrait, checkType } from '../checks.ts';
import type { Core } from '../core.ts';
import { acquire, asGrant, tryAcquire } from '../hold/acquire.ts';
import type { Want } from '../hold/want.ts';
import { type AcquireOptions, resolve } from '../options.ts';
import { namespaced } from './namespace.ts';

/** The most that may be taken. All programs that use the limit must say the same. */
export interface RateLimitOptions {
  /** How many may be taken in any window. */
  readonly permits: number;
  /** The length of the window. */
  readonly perMs: number;
}

/** What of `AcquireOptions` makes sense for something that is never given back. */
export type TakeOptions = Pick<AcquireOptions, 'waitMs' | 'signal' | 'metadata'>;

/** At most so many in any window of that length, over all programs, first come, first served. */
export interface RateLimit {
  /** Waits for its turn. Rejects as `acquire` does. Takes 1 unless told. */
  take(count?: number, options?: TakeOptions): Promise<void>;
  /** True when it was taken now; false when the window is full or others wait. */
  tryTake(count?: number, options?: Omit<TakeOptions, 'waitMs'>): Promise<boolean>;
}

/** What is taken is a permit that nobody gives back: it runs out when the window has moved past it. */
export function rateLimit(core: Core, name: string, options: RateLimitOptions): RateLimit {
  checkTrait(core.store, 'counting', 'rate limits');
  checkTrait(core.store, 'remembers', 'rate limits');
  checkType('options', options, 'object');
  checkName(name);
  const of = checkPermits(options.permits);
  const perMs = checkDuration('perMs', options.perMs);
  const want = (count: number, call: TakeOptions | undefined): Want => ({
    name: namespaced('rate', name),
    mode: { kind: 'permits', count: checkCount('count', count, 1, of), of },
    settings: { ...resolve(core.settings, call), ttlMs: perMs, renewEveryMs: null, renew: false },
    detached: true,
  });
  return {
    async take(count = 1, call) {
      await acquire(core, want(count, call), asGrant);
    },
    async tryTake(count = 1, call) {
      return (await tryAcquire(core, want(count, call), asGrant)) !== null;
    },
  };
}
