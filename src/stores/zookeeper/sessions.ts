import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import type { RawClient, ZookeeperClient } from './client.ts';
import { anotherLike } from './internals.ts';
import { Session } from './session.ts';

/** A session that ends sooner than this was turned down; the next one waits as long. */
const SHORT_MS = 1_000;

/** The session that is used now, and the next one when that is over. */
export class Sessions {
  readonly #source: RawClient | (() => RawClient);
  readonly #clock: Clock;
  readonly #listeners = new Set<(session: Session) => void>();
  #session: Session | null = null;
  #leave: (() => Promise<void>) | null = null;
  isClosed = false;
  #notBeforeMs = Number.NEGATIVE_INFINITY;

  /** A function is asked for a new client for each session; of a client, others like it are made when its session has expired. */
  constructor(source: ZookeeperClient | (() => ZookeeperClient), clock: Clock) {
    this.#source = source as unknown as RawClient | (() => RawClient);
    this.#clock = clock;
    if (typeof this.#source !== 'function') this.#use(Session.of(this.#source, clock));
  }

  /** Called after every reconnect, and when a session is over. */
  listen(listener: (session: Session) => void): { stop(): void } {
    // A fresh function: the same callback may listen twice.
    const own = (session: Session): void => listener(session);
    this.#listeners.add(own);
    return { stop: () => void this.#listeners.delete(own) };
  }

  /** The session, when requests can be sent over it now. */
  get usable(): Session | null {
    return !this.isClosed && this.#session?.isUsable === true ? this.#session : null;
  }

  /** Resolves to a session that requests can be sent over; rejects with `applied: 'no'` when there is none in time. */
  async ready(signal?: AbortSignal): Promise<Session> {
    if (this.isClosed) throw new StoreError('The store is closed', { applied: 'no' });
    const session = this.#session === null || this.#session.isOver ? this.#next() : this.#session;
    await session.ready(signal);
    if (signal?.aborted === true) throw new StoreError('The request was not sent in time', { applied: 'no' });
    return session;
  }

  async close(): Promise<void> {
    this.isClosed = true;
    await this.#leave?.();
  }

  #next(): Session {
    this.#session?.assertNotClosed();
    if (this.#clock.monotonicMs() < this.#notBeforeMs)
      throw new StoreError('ZooKeeper has turned the last session down', { applied: 'no' });
    const source = this.#source;
    if (typeof source === 'function') return this.#start(source());
    const another = anotherLike(source);
    if (another === null)
      throw new StoreError('The session has expired, and another like it cannot be made', { applied: 'no' });
    return this.#start(another);
  }

  #start(client: RawClient): Session {
    return this.#use(new Session(client, true, this.#clock));
  }

  #use(session: Session): Session {
    const startedMs = this.#clock.monotonicMs();
    // The one before is over: nothing is left to wait for.
    void this.#leave?.();
    this.#session = session;
    this.#leave = session.use((told) => {
      const nowMs = this.#clock.monotonicMs();
      if (told.isOver && nowMs - startedMs < SHORT_MS) this.#notBeforeMs = nowMs + SHORT_MS;
      for (const listener of [...this.#listeners]) listener(told);
    });
    return session;
  }
}
