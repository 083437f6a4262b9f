import { checkName, checkOneTry, checkType } from '../checks.ts';
import type { Core } from '../core.ts';
import { type AcquireRequest, acquire, tryAcquire } from '../hold/acquire.ts';
import { ClaimHold, type Hold } from '../hold/hold.ts';
import { runHeld } from '../hold/run.ts';
import { type AcquireOptions, resolve, type Settings } from '../options.ts';
import type { Mode } from '../store/store.ts';
import { enclosing, runInside } from './reentrancy.ts';

/** A lock that can be held. It has no state of its own: all state is in the holds. */
export interface Lockable<H = Hold, O = AcquireOptions> {
  /**
   * Waits for a hold, first come, first served. Rejects with `AcquireTimeoutError` when the wait
   * times out, with `signal.reason` when aborted, with a `StoreError` when the last attempt failed.
   */
  acquire(options?: O): Promise<H>;
  /**
   * One try: `null` when another claim holds the lock, a `StoreError` when the outcome is unknown.
   */
  tryAcquire(options?: Omit<O, 'waitMs'>): Promise<H | null>;
  /**
   * Runs the function under a hold and releases it in every case. The function's own error wins,
   * with a failed release attached as `releaseError`. When the hold was lost before the function
   * settled, rejects with a `HoldLostError` that has what the function returned as its `value`.
   */
  run<T>(fn: (hold: H) => T | Promise<T>, options?: O): Promise<T>;
  /** The same after one try: `{ ran: false }` when another claim holds the lock. */
  tryRun<T>(fn: (hold: H) => T | Promise<T>, options?: Omit<O, 'waitMs'>): Promise<TryRunOutcome<T>>;
}

/** Whether `tryRun` acquired the lock, and what the function returned. */
export type TryRunOutcome<T> = { readonly ran: true; readonly value: T } | { readonly ran: false };

/** A lock of one name: the mode of each claim follows from the options of the call. */
export class NamedLock<O extends AcquireOptions = AcquireOptions> implements Lockable<Hold, O> {
  readonly #core: Core;
  readonly #name: string;
  readonly #settings: Settings;
  readonly #modeOf: (options: Partial<O> | undefined) => Mode;
  readonly #callKeys: readonly string[];

  constructor(
    core: Core,
    name: string,
    options: AcquireOptions | undefined,
    modeOf: (options: Partial<O> | undefined) => Mode,
    /** Options that a call of this lock accepts besides `AcquireOptions`. */
    callKeys: readonly string[] = [],
  ) {
    this.#core = core;
    this.#name = checkName(name);
    this.#settings = resolve(core.settings, options);
    this.#modeOf = modeOf;
    this.#callKeys = callKeys;
  }

  async acquire(options?: O): Promise<Hold> {
    const request = this.#request(options);
    return enclosing(this.#core, request) ?? new ClaimHold(this.#core, await acquire(this.#core, request));
  }

  async tryAcquire(options?: Omit<O, 'waitMs'>): Promise<Hold | null> {
    checkOneTry(options, 'acquire');
    return await this.#tryOnce(this.#request(options as Partial<O> | undefined));
  }

  async run<T>(fn: (hold: Hold) => T | Promise<T>, options?: O): Promise<T> {
    checkType('fn', fn, 'function');
    const request = this.#request(options);
    const hold =
      enclosing(this.#core, request) ?? new ClaimHold(this.#core, await acquire(this.#core, request));
    return await runHeld(hold, this.#inside(request, fn));
  }

  async tryRun<T>(
    fn: (hold: Hold) => T | Promise<T>,
    options?: Omit<O, 'waitMs'>,
  ): Promise<TryRunOutcome<T>> {
    checkType('fn', fn, 'function');
    checkOneTry(options, 'run');
    const request = this.#request(options as Partial<O> | undefined);
    const hold = await this.#tryOnce(request);
    if (hold === null) return { ran: false };
    return { ran: true, value: await runHeld(hold, this.#inside(request, fn)) };
  }

  async #tryOnce(request: AcquireRequest): Promise<ClaimHold | null> {
    const inner = enclosing(this.#core, request);
    if (inner !== null) return inner;
    const held = await tryAcquire(this.#core, request);
    return held && new ClaimHold(this.#core, held);
  }

  /**
   * The function, marked as code inside this lock: it may acquire the lock again, or gets an error
   * that says that it waits for itself. Before Node.js 24, such a context makes every promise of
   * the process about 3 times slower, and those inside it 4 to 7 times.
   */
  #inside<T>(
    { mode, settings }: AcquireRequest,
    fn: (hold: Hold) => T | Promise<T>,
  ): (hold: ClaimHold) => T | Promise<T> {
    if (!settings.reentrant && !CONTEXT_IS_CHEAP) return fn;
    return (hold) => runInside(this.#core, mode, hold, fn);
  }

  #request(options: Partial<O> | undefined): AcquireRequest {
    return {
      name: this.#name,
      mode: this.#modeOf(options),
      settings: resolve(this.#settings, options, this.#callKeys),
    };
  }
}

/** From Node.js 24 on, following the asynchronous context costs next to nothing. */
const CONTEXT_IS_CHEAP = Number.parseInt(process.versions.node, 10) >= 24;
