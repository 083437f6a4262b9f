import {
  checkCount,
  checkDuration,
  checkKeys,
  checkName,
  checkOneTry,
  checkPermits,
  checkTrait,
} from '../checks.ts';
import type { Core } from '../core.ts';
import { type AcquireRequest, acquire, tryAcquire } from '../hold/acquire.ts';
import { type AcquireOptions, resolve } from '../options.ts';
import { storedName } from '../use.ts';

/** The limit. All programs that use it must agree on it. */
export interface RateLimitOptions {
  /** How many permits may be taken in any window. */
  readonly permits: number;
  /** The length of the window. */
  readonly perMs: number;
}

/** The `AcquireOptions` that make sense for permits that are never released. */
export type TakeOptions = Pick<AcquireOptions, 'waitMs' | 'signal' | 'metadata'>;

/** At most `permits` in any window of `perMs`, over all programs, first come, first served. */
export interface RateLimit {
  /** Waits in the queue. Rejects as `acquire` does. Takes 1 permit unless set. */
  take(count?: number, options?: TakeOptions): Promise<void>;
  /** True when the permits were taken; false when the window is full or others wait. */
  tryTake(count?: number, options?: Omit<TakeOptions, 'waitMs'>): Promise<boolean>;
}

/** A permit that is never released: it expires when the window has moved past it. */
export function rateLimit(core: Core, name: string, options: RateLimitOptions): RateLimit {
  checkTrait(core.store, 'counting', 'rate limits');
  checkTrait(core.store, 'remembers', 'rate limits');
  checkKeys(options, ['permits', 'perMs']);
  checkName(name);
  const of = checkPermits(options.permits);
  const perMs = checkDuration('perMs', options.perMs);
  const request = (count: number, call: TakeOptions | undefined): AcquireRequest => ({
    name: storedName('rateLimit', name),
    mode: { kind: 'permits', count: checkCount('count', count, 1, of), of },
    settings: {
      ...resolve(core.settings, call && checkKeys(call, ['waitMs', 'signal', 'metadata'])),
      ttlMs: perMs,
      renewEveryMs: null,
      renew: false,
    },
    detached: true,
  });
  return {
    async take(count = 1, call) {
      await acquire(core, request(count, call));
    },
    async tryTake(count = 1, call) {
      checkOneTry(call, 'take');
      return (await tryAcquire(core, request(count, call))) !== null;
    },
  };
}
