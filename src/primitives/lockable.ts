import { checkFunction, checkName } from '../checks.ts';
import type { Core } from '../core.ts';
import { acquire, tryAcquire } from '../hold/acquire.ts';
import { GrantHold, type Hold } from '../hold/hold.ts';
import { runHeld } from '../hold/run.ts';
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
      const mode = this.#modeOf(options);
      const settings = resolve(this.#settings, options);
      return settings.reentrant ? this.#acquireAgain(mode, settings) : this.#acquire(mode, settings);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async tryAcquire(options?: Omit<O, 'waitMs'>): Promise<Hold | null> {
    const mode = this.#modeOf(options as Partial<O> | undefined);
    const settings = resolve(this.#settings, options);
    const again = await this.#again(mode, settings);
    if (again !== null) return again;
    const grant = await tryAcquire(this.#core, { name: this.#name, mode, settings });
    return grant === null ? null : new GrantHold(this.#core, grant);
  }

  async run<T>(fn: (hold: Hold) => T | Promise<T>, options?: O): Promise<T> {
    checkFunction('fn', fn);
    const mode = this.#modeOf(options);
    const settings = resolve(this.#settings, options);
    if (!settings.reentrant) return await runHeld(await this.#acquire(mode, settings), fn);
    const hold = await this.#acquireAgain(mode, settings);
    const { runInside } = await import('./reentry.ts');
    return await runHeld(hold, (held) => runInside({ core: this.#core, hold: held, mode }, () => fn(held)));
  }

  async #acquireAgain(mode: Mode, settings: Settings): Promise<GrantHold> {
    return (await this.#again(mode, settings)) ?? (await this.#acquire(mode, settings));
  }

  #acquire(mode: Mode, settings: Settings): Promise<GrantHold> {
    return acquire(this.#core, { name: this.#name, mode, settings }).then(
      (grant) => new GrantHold(this.#core, grant),
    );
  }

  async #again(mode: Mode, settings: Settings): Promise<GrantHold | null> {
    if (!settings.reentrant) return null;
    this.#core.assertOpen();
    settings.signal?.throwIfAborted();
    // Loaded when it is first asked for: following the asynchronous context slows every promise of the process down.
    const { enclosing } = await import('./reentry.ts');
    return enclosing(this.#core, this.#name, mode);
  }
}
