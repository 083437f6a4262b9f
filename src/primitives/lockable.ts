import { checkName, checkType } from '../checks.ts';
import type { Core } from '../core.ts';
import { acquire, tryAcquire } from '../hold/acquire.ts';
import { type GrantHold, type Hold, holdOn } from '../hold/hold.ts';
import { runHeld } from '../hold/run.ts';
import type { Want } from '../hold/want.ts';
import { type AcquireOptions, resolve, type Settings } from '../options.ts';
import type { Mode } from '../store/store.ts';

/** Something that can be held. It has no state of its own: all state is in the holds. */
export interface Lockable<H = Hold, O = AcquireOptions> {
  /**
   * Waits for a hold, first come, first served. Rejects with `AcquireTimeoutError` when the wait runs out, with `signal.reason` when aborted, with
   * a `StoreError` when the last attempt failed.
   */
  acquire(options?: O): Promise<H>;
  /** One try: `null` when held by another, a `StoreError` when nobody knows. */
  tryAcquire(options?: Omit<O, 'waitMs'>): Promise<H | null>;
  /**
   * Runs the function under a hold and releases it in every case. The function's own error wins, with a failed release attached as `releaseError`.
   * When the hold was lost before the function settled it throws `HoldLostError` with what the function returned as its `value`.
   */
  run<T>(fn: (hold: H) => T | Promise<T>, options?: O): Promise<T>;
}

/** A lock of one name: the mode of each claim follows from the options of the call. */
export class NamedLock<O extends AcquireOptions = AcquireOptions> implements Lockable<Hold, O> {
  readonly #core: Core;
  readonly #name: string;
  readonly #settings: Settings;
  readonly #modeOf: (options: Partial<O> | undefined) => Mode;

  constructor(
    core: Core,
    name: string,
    options: AcquireOptions | undefined,
    modeOf: (options: Partial<O> | undefined) => Mode,
  ) {
    this.#core = core;
    this.#name = checkName(name);
    this.#settings = resolve(core.settings, options);
    this.#modeOf = modeOf;
  }

  /** Not async itself: each frame that a waiter keeps counts when ten thousand wait. */
  acquire(options?: O): Promise<Hold> {
    try {
      return this.#acquire(this.#want(options));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async tryAcquire(options?: Omit<O, 'waitMs'>): Promise<Hold | null> {
    const want = this.#want(options as Partial<O> | undefined);
    return (
      (want.settings.reentrant ? (await reentry()).enclosing(this.#core, want) : null) ??
      (await tryAcquire(this.#core, want, holdOn))
    );
  }

  async run<T>(fn: (hold: Hold) => T | Promise<T>, options?: O): Promise<T> {
    checkType('fn', fn, 'function');
    const want = this.#want(options);
    // Loaded before the hold is taken: nothing may lie between that and the function.
    const inner = want.settings.reentrant ? await reentry() : null;
    return await runHeld(
      await this.#acquire(want),
      inner === null ? fn : (hold) => inner.runInside(this.#core, want.mode, hold, fn),
    );
  }

  #want(options: Partial<O> | undefined): Want {
    return {
      name: this.#name,
      mode: this.#modeOf(options),
      settings: resolve(this.#settings, options),
    };
  }

  #acquire(want: Want): Promise<GrantHold> {
    if (!want.settings.reentrant) return acquire(this.#core, want, holdOn);
    return reentry().then(
      ({ enclosing }) => enclosing(this.#core, want) ?? acquire(this.#core, want, holdOn),
    );
  }
}

/** Loaded when it is first asked for: following the asynchronous context slows every promise of the process down. */
const reentry = () => import('./reentry.ts');
