import type { Clock } from '../../../clock.ts';
import { StoreError } from '../../../errors.ts';
import { storeClosed } from '../../shared/store-closed.ts';
import type { ConnectionFactory } from '../driver-connection.ts';
import { gaveUp } from '../failure.ts';
import { Session, type SessionOptions } from './session.ts';
import { SharedPromise } from './shared-promise.ts';

/** After a failure to connect, all calls fail for this long without another attempt. */
const REST_MS = 250;

/** The session of a store: opened when it is needed, and again after it was lost. */
export class Sessions {
  readonly #factory: ConnectionFactory;
  readonly #clock: Clock;
  readonly #events: Pick<SessionOptions, 'onNotification' | 'onLost'>;
  #session: Session | null = null;
  #opening: SharedPromise<Session> | null = null;
  #failure: { readonly error: unknown; readonly untilMs: number } | null = null;
  #isClosed = false;
  /** Aborts when the store closes: a silent server may keep a session opening for seconds. */
  readonly #closing = new AbortController();

  constructor(
    factory: ConnectionFactory,
    clock: Clock,
    events: Pick<SessionOptions, 'onNotification' | 'onLost'>,
  ) {
    this.#factory = factory;
    this.#clock = clock;
    this.#events = events;
  }

  assertOpen(): void {
    if (this.#isClosed) throw storeClosed();
  }

  /** The open session; `null` when there is none, and so no hold. */
  get now(): Session | null {
    return this.#session?.isLost === false ? this.#session : null;
  }

  /**
   * The open session, else a new one. Rejects with a `StoreError` of `applied: 'no'`, or with
   * an `UnsupportedError` behind a pooler.
   */
  async current(owner: string | null, signal?: AbortSignal): Promise<Session> {
    this.assertOpen();
    const { now } = this;
    if (now !== null) return now;
    if (this.#failure !== null && this.#clock.monotonicMs() < this.#failure.untilMs)
      throw this.#failure.error;
    this.#opening ??= new SharedPromise(
      this.#open(owner).finally(() => {
        this.#opening = null;
      }),
    );
    return await this.#opening.wait(signal, gaveUp);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#closing.abort();
    await this.#opening?.wait(undefined, gaveUp).catch(() => {});
    await this.#session?.close();
    this.#session = null;
  }

  async #open(owner: string | null): Promise<Session> {
    try {
      const session = await Session.open(this.#factory, {
        ...this.#events,
        clock: this.#clock,
        owner,
        signal: this.#closing.signal,
      });
      this.#session = session;
      this.#failure = null;
      if (this.#isClosed) throw storeClosed();
      return session;
    } catch (error) {
      if (error instanceof StoreError)
        this.#failure = { error, untilMs: this.#clock.monotonicMs() + REST_MS };
      throw error;
    }
  }
}
