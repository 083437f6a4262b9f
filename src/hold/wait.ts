import type { Core } from '../core.ts';
import type { PushedGrant, Waiter } from '../store/store.ts';
import { type Instant, instant } from '../store/validity.ts';
import { onAbort } from '../util/abort.ts';

/** A grant that the store pushed, and when it arrived: its validity counts from then. */
export interface ArrivedGrant {
  readonly grant: PushedGrant;
  readonly at: Instant;
}

/** One caller's wait. The store wakes it. The caller's signal, or `close`, stops it. */
export class Wait implements Waiter {
  readonly #core: Core;
  readonly #stopListening: (() => void) | null;
  hasBegun = false;
  /** A wake-up that no sleep has taken yet, and the grant that came with it. */
  #isWoken = false;
  #arrived: ArrivedGrant | null = null;
  #endSleep: (() => void) | null = null;
  #stopped: { readonly reason: unknown } | null = null;
  #onStop: ((reason: unknown) => void) | null = null;

  constructor(core: Core, signal?: AbortSignal) {
    this.#core = core;
    this.#stopListening = signal === undefined ? null : onAbort(signal, () => this.stop(signal.reason));
  }

  /** From here on `close` stops the wait as well. Throws a `ClosedError` when the Locks is closed. */
  begin(): void {
    this.#core.assertOpen();
    this.hasBegun = true;
    this.#core.waits.add(this);
  }

  /** Whether anything can stop this wait: neither a signal nor `close` can during most acquires. */
  get canStop(): boolean {
    return this.#stopListening !== null || this.hasBegun;
  }

  wake(grant?: PushedGrant): void {
    if (grant !== undefined) this.#arrived = { grant, at: instant(this.#core.clock) };
    this.#isWoken = true;
    this.#endSleep?.();
  }

  get isStopped(): boolean {
    return this.#stopped !== null;
  }

  /** Throws the caller's reason, or a `ClosedError`, when the wait was stopped. */
  throwIfStopped(): void {
    if (this.#stopped !== null) throw this.#stopped.reason;
  }

  /** Settles as `work` does, but rejects as soon as the wait is stopped. */
  race<T>(work: Promise<T>): Promise<T> {
    if (!this.canStop) return work;
    return new Promise<T>((resolve, reject) => {
      work.then(resolve, reject);
      if (this.#stopped === null) this.#onStop = reject;
      else reject(this.#stopped.reason);
    });
  }

  /** Forgets earlier wake-ups: the claim that is sent now answers them. */
  clear(): void {
    this.#isWoken = false;
    this.#arrived = null;
  }

  /**
   * Resolves after a wake-up (at once for one that came since `clear`), after `ms`, or when the
   * wait is stopped. Resolves to the pushed grant, if one came.
   */
  async sleep(ms: number): Promise<ArrivedGrant | null> {
    if (!this.#isWoken && this.#stopped === null) {
      await new Promise<void>((resolve) => {
        const timer = this.#core.clock.startTimer(ms, resolve);
        this.#endSleep = () => {
          timer.cancel();
          resolve();
        };
      });
      this.#endSleep = null;
    }
    return this.take();
  }

  /** The pushed grant that has arrived since `clear`, if one has. */
  take(): ArrivedGrant | null {
    const arrived = this.#arrived;
    this.clear();
    return arrived;
  }

  end(): void {
    this.#stopListening?.();
    this.#core.waits.delete(this);
  }

  /** The first reason counts. */
  stop(reason: unknown): void {
    if (this.#stopped !== null) return;
    this.#stopped = { reason };
    this.#endSleep?.();
    this.#onStop?.(reason);
  }
}
