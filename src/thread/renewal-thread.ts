import { Worker } from 'node:worker_threads';
import { show } from '../checks.ts';
import { threadClock } from '../clock.ts';
import { ClosedError, type HoldfastError, StoreError } from '../errors.ts';
import { onAbort } from '../util/abort.ts';
import { settlesWithin } from '../util/backoff.ts';
import type { Answer, Arguments, FromThread, OpenedStore, ThreadData, ToThread, Verb } from './messages.ts';
import { errorFrom } from './plain-error.ts';

/** How long the thread gets to close its store before it is terminated. */
const CLOSE_MS = 900;

interface PendingCall {
  resolve(value: unknown): void;
  reject(error: Error): void;
  stopListening(): void;
}

type Listener = (message: FromThread) => void;

/**
 * The process's side of the thread: calls and their answers, messages, and the end of the thread.
 */
export class RenewalThread {
  readonly #worker: Worker;
  readonly #pending = new Map<number, PendingCall>();
  readonly #listeners: Listener[] = [];
  #calls = 0;
  #failure: HoldfastError | null = null;
  #ending: Promise<void> | null = null;

  constructor(program: string, data: ThreadData) {
    this.#worker = new Worker(program, { eval: true, workerData: data, name: 'holdfast-renewal' });
    this.#worker.on('message', (message: FromThread) => this.#onMessage(message));
    this.#worker.on('messageerror', (error) => this.#fail(show(error)));
    this.#worker.on('error', (error) => this.#fail(show(error)));
    this.#worker.on('exit', (code) => this.#fail(`its exit code was ${code}`));
  }

  /** Opens the store in the thread. From here on the thread does not keep the process alive. */
  async open(): Promise<OpenedStore> {
    try {
      return await this.call('open', []);
    } finally {
      this.#worker.unref();
    }
  }

  /** Why the thread has ended; `null` while it runs. */
  get failure(): HoldfastError | null {
    return this.#failure;
  }

  onMessage(listener: Listener): void {
    this.#listeners.push(listener);
  }

  /**
   * Rejects with a `StoreError` when the thread has failed, or fails before it has answered, and
   * with a `ClosedError` once it was closed.
   */
  call<V extends Verb>(verb: V, args: Arguments<V>, signal?: AbortSignal): Promise<Answer<V>> {
    if (this.#failure !== null) return Promise.reject(this.#failure);
    this.#calls += 1;
    const number = this.#calls;
    return new Promise<Answer<V>>((resolve, reject) => {
      const stopListening = onAbort(signal, () => this.post({ kind: 'abandon', number }));
      this.#pending.set(number, { resolve: resolve as PendingCall['resolve'], reject, stopListening });
      this.post({ kind: 'call', number, verb, args, isAbandoned: signal?.aborted === true });
    });
  }

  post(message: ToThread): void {
    if (this.#failure === null) this.#worker.postMessage(message);
  }

  /** Closes the store of the thread, and ends the thread. Never rejects. */
  end(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  async #end(): Promise<void> {
    // A caller awaits the end, and nothing else may keep the process alive.
    this.#worker.ref();
    await settlesWithin(threadClock, this.call('close', []), CLOSE_MS);
    const closed = new ClosedError('This store is closed');
    this.#stop(closed, closed);
    await this.#worker.terminate();
  }

  #onMessage(message: FromThread): void {
    if (message.kind === 'answer') this.#take(message.number)?.resolve(message.value);
    else if (message.kind === 'failure') this.#take(message.number)?.reject(errorFrom(message.error));
    else for (const listener of this.#listeners) listener(message);
  }

  #take(number: number): PendingCall | undefined {
    const call = this.#pending.get(number);
    this.#pending.delete(number);
    call?.stopListening();
    return call;
  }

  #fail(why: string): void {
    const message = `The renewal thread has ended: ${why}`;
    // The cause says that no retry can succeed.
    const cause = new ClosedError(message);
    const failure = new StoreError(message, { cause, applied: 'no' });
    this.#stop(failure, new StoreError(message, { cause, applied: 'unknown' }));
  }

  /**
   * Rejects every later call with `failure`, and those that wait for an answer with `unanswered`.
   */
  #stop(failure: HoldfastError, unanswered: HoldfastError): void {
    if (this.#failure !== null) return;
    this.#failure = failure;
    for (const number of [...this.#pending.keys()]) this.#take(number)?.reject(unanswered);
  }
}
