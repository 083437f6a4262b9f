import { StoreError } from '../../../errors.ts';
import { storeClosed } from '../../shared/store-closed.ts';
import type { ConnectionFactory } from '../connection.ts';
import { Session, type SessionOptions } from './session.ts';
import { SharedPromise } from './shared-promise.ts';

/** After a failure to connect, all calls fail for this long without another attempt. */
const REST_MS = 250;

/** The session of a store: opened when it is needed, and again after it was lost. */
export class Sessions {
  readonly #factory: ConnectionFactory;
  readonly #options: Omit<SessionOptions, 'signal'>;
  #session: Session | null = null;
  #opening: SharedPromise<Session> | null = null;
  #failure: { readonly error: unknown; readonly untilMs: number } | null = null;
  /** Aborts when the store closes: a silent server may keep a session opening for seconds. */
  readonly #closing = new AbortController();

  constructor(factory: ConnectionFactory, options: Omit<SessionOptions, 'signal'>) {
    this.#factory = factory;
    this.#options = options;
  }

  assertOpen(): void {
    if (this.#closing.signal.aborted) throw storeClosed();
  }

  /** The open session; `null` when there is none, and so no hold. */
  get now(): Session | null {
    return this.#session?.isLost === false ? this.#session : null;
  }

  /**
   * The open session, else a new one. Rejects with `UnsupportedError` behind a pooler, and with a
   * `StoreError` of `applied: 'no'` when there is no connection or the server is a standby.
   */
  async current(signal?: AbortSignal): Promise<Session> {
    this.assertOpen();
    const { now } = this;
    if (now !== null) return now;
    if (this.#failure !== null && this.#options.clock.monotonicMs() < this.#failure.untilMs)
      throw this.#failure.error;
    this.#opening ??= new SharedPromise(
      this.#open().finally(() => {
        this.#opening = null;
      }),
    );
    return await this.#opening.wait(signal);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#opening?.wait().catch(() => {});
    await this.#session?.close();
    this.#session = null;
  }

  async #open(): Promise<Session> {
    try {
      this.#session = await Session.open(this.#factory, { ...this.#options, signal: this.#closing.signal });
      this.#failure = null;
      this.assertOpen();
      return this.#session;
    } catch (error) {
      if (error instanceof StoreError)
        this.#failure = { error, untilMs: this.#options.clock.monotonicMs() + REST_MS };
      throw error;
    }
  }
}
