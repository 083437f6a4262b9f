import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import type { RawClient, ZookeeperClient } from './client.ts';
import { PatchedClient } from './patched-client.ts';
import { Session } from './session.ts';

/** A session that ends within this time was refused. The next session begins after the same time. */
const SHORT_MS = 1_000;

/** A client, or a function that creates one. */
export type ClientSource<Client = ZookeeperClient> = Client | (() => Client);

/** A store's current session, and the next session once that one is over. */
export class Connection {
  readonly #source: ClientSource<RawClient>;
  readonly #clock: Clock;
  readonly #onChange: () => void;
  #session: Session | null = null;
  #leave: (() => Promise<void>) | null = null;
  #isClosed = false;
  #notBeforeMs = Number.NEGATIVE_INFINITY;

  /**
   * `source`: a function is called for every session. A client is used for the first session; later
   * sessions get clients with the same settings. `onChange` is called after every reconnect, and at
   * the end of a session.
   */
  constructor(source: ClientSource, clock: Clock, onChange: () => void) {
    this.#source = source as ClientSource<RawClient>;
    this.#clock = clock;
    this.#onChange = onChange;
    if (typeof this.#source !== 'function') this.#use(Session.of(PatchedClient.of(this.#source), clock));
  }

  /** The session, if requests can be sent over it now. */
  get usable(): Session | null {
    return !this.#isClosed && this.#session?.isUsable === true ? this.#session : null;
  }

  /** Closing this ends the session. False: a user's client may connect again in the same session. */
  get isOurs(): boolean {
    return this.#session?.isOurs !== false;
  }

  /** Waits for a session that can send requests. Rejects with `applied: 'no'` if none is ready in time. */
  async ready(signal?: AbortSignal): Promise<Session> {
    if (this.#isClosed) throw new StoreError('The store is closed', { applied: 'no' });
    const session = this.#session === null || this.#session.isReplaceable ? this.#next() : this.#session;
    await session.ready(signal);
    if (signal?.aborted === true) throw new StoreError('The request was not sent in time', { applied: 'no' });
    return session;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#leave?.();
  }

  #next(): Session {
    if (this.#clock.monotonicMs() < this.#notBeforeMs)
      throw new StoreError('The last session ended at once; the next one may begin a second later', {
        applied: 'no',
      });
    const source = this.#source;
    const client = typeof source === 'function' ? source() : this.#session?.client.another();
    if (client == null)
      throw new StoreError('The session is over, and no other client can be created', { applied: 'no' });
    return this.#use(new Session(PatchedClient.of(client), true, this.#clock));
  }

  #use(session: Session): Session {
    const startedMs = this.#clock.monotonicMs();
    // The previous session is over, so there is nothing to wait for.
    void this.#leave?.();
    this.#session = session;
    this.#leave = session.use(() => {
      const nowMs = this.#clock.monotonicMs();
      if (session.isOver && nowMs - startedMs < SHORT_MS) this.#notBeforeMs = nowMs + SHORT_MS;
      this.#onChange();
    });
    return session;
  }
}
