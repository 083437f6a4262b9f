import type { Closable, Core } from '../core.ts';
import type { ClosedError } from '../errors.ts';
import { onAbort } from './abort.ts';

/**
 * One caller's wait: it can be woken, it can be cut short by the caller's signal or by `close`, and it keeps the process alive once it has to
 * wait.
 */
export class Wait implements Closable {
  readonly #core: Core;
  readonly #stopListening: () => void;
  #keepsAlive = false;
  #rise: (() => void) | null = null;
  #woken = false;
  #stopped: { readonly reason: unknown } | null = null;
  #onStop: ((reason: unknown) => void) | null = null;

  constructor(core: Core, signal?: AbortSignal) {
    this.#core = core;
    this.#stopListening = onAbort(signal, () => this.#stop(signal?.reason));
    core.closables.add(this);
  }

  readonly wake = (): void => {
    if (this.#rise === null) this.#woken = true;
    else this.#rise();
  };

  onClose(error: ClosedError): void {
    this.#stop(error);
  }

  /** Throws the reason when the wait was cut short. */
  throwIfStopped(): void {
    if (this.#stopped !== null) throw this.#stopped.reason;
  }

  /** Settles as `work` does, but rejects as soon as the wait is cut short; `work` then goes on unobserved. */
  race<T>(work: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      work.then(resolve, reject);
      this.throwIfStopped();
      this.#onStop = reject;
    });
  }

  /** Calls back when the wait is cut short, if that is not over before: `null` ends it. */
  onStop(callback: ((reason: unknown) => void) | null): void {
    this.#onStop = callback;
  }

  /** Resolves after a wake-up, also one that came before, after `ms`, or when the wait is cut short. */
  sleep(ms: number): Promise<void> {
    if (this.#woken) {
      this.#woken = false;
      return Promise.resolve();
    }
    return new Promise<void>((resolve) => {
      const timer = this.#core.clock.startTimer(ms, this.wake);
      this.#rise = () => {
        this.#rise = null;
        timer.cancel();
        resolve();
      };
    });
  }

  /** From here on the process must not end before the wait does. */
  keepProcessAlive(): void {
    this.#keepsAlive = true;
    this.#core.stayAlive.begin();
  }

  end(): void {
    if (this.#keepsAlive) this.#core.stayAlive.end();
    this.#stopListening();
    this.#core.closables.delete(this);
  }

  get isStopped(): boolean {
    return this.#stopped !== null;
  }

  #stop(reason: unknown): void {
    if (this.#stopped !== null) return;
    this.#stopped = { reason };
    this.wake();
    this.#onStop?.(reason);
  }
}

/** Ends a watch, also one that has not begun yet. */
export function disposeQuietly(watch: Promise<AsyncDisposable> | null): void {
  watch?.then((armed) => armed[Symbol.asyncDispose]()).catch(() => {});
}
