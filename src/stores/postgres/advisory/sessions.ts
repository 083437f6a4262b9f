import type { Clock } from '../../../clock.ts';
import { ClosedError, StoreError } from '../../../errors.ts';
import type { Dial } from '../wire.ts';
import { Session, type SessionOptions } from './session.ts';

/** A server that refuses connections is not asked again before this, however many want one. */
const REST_MS = 250;

/** The one session of a store: opened when it is needed, and opened again when it was lost. */
export class Sessions {
  readonly #dial: Dial;
  readonly #clock: Clock;
  readonly #hearing: Pick<SessionOptions, 'onNotification' | 'onLost'>;
  #session: Session | null = null;
  #opening: Promise<Session> | null = null;
  #failure: { readonly error: unknown; readonly untilMs: number } | null = null;
  #isClosed = false;

  constructor(dial: Dial, clock: Clock, hearing: Pick<SessionOptions, 'onNotification' | 'onLost'>) {
    this.#dial = dial;
    this.#clock = clock;
    this.#hearing = hearing;
  }

  assertOpen(): void {
    if (this.#isClosed) throw new ClosedError('This store is closed');
  }

  /** `null` when there is none: then nothing is held. */
  get now(): Session | null {
    return this.#session?.isLost === false ? this.#session : null;
  }

  /** The one that is open, else a new one. Rejects with a `StoreError` of `applied: 'no'`, or with an `UnsupportedError` behind a pooler. */
  async current(owner: string | null): Promise<Session> {
    this.assertOpen();
    const { now } = this;
    if (now !== null) return now;
    if (this.#failure !== null && this.#clock.monotonicMs() < this.#failure.untilMs)
      throw this.#failure.error;
    this.#opening ??= this.#open(owner).finally(() => {
      this.#opening = null;
    });
    return await this.#opening;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#opening?.catch(() => {});
    await this.#session?.close();
    this.#session = null;
  }

  async #open(owner: string | null): Promise<Session> {
    try {
      const session = await Session.open(this.#dial, { ...this.#hearing, clock: this.#clock, owner });
      this.#session = session;
      this.#failure = null;
      if (this.#isClosed) throw new ClosedError('This store is closed');
      return session;
    } catch (error) {
      if (error instanceof StoreError)
        this.#failure = { error, untilMs: this.#clock.monotonicMs() + REST_MS };
      throw error;
    }
  }
}
