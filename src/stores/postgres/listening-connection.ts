import type { Clock } from '../../clock.ts';
import { pause } from '../../util/backoff.ts';
import type { ConnectionEvents, SubscribedConnection } from '../shared/subscription.ts';
import { Connection, type ConnectionFactory } from './connection.ts';
import { backendOf, sharesBackends } from './pooler.ts';

/**
 * The salt of `channel_lock` of `migrations/`. This process holds that advisory lock while it
 * listens, so that the server can tell when the process has died.
 */
const CHANNEL_SALT = 4701;
/** Behind a pooler: how long a NOTIFY may take. */
const PROBE_MS = 1_000;
const PROBE = 'p';

/** The channel of evictions, for every schema of the database. */
export const EVICTIONS = 'holdfast_evicted';

/** One connection that listens to a channel and to evictions. Without LISTEN it ends for good. */
export class ListeningConnection implements SubscribedConnection {
  isDirect = false;
  readonly #factory: ConnectionFactory;
  readonly #clock: Clock;
  readonly #channel: string;
  readonly #events: ConnectionEvents<string>;
  #connection: Connection | null = null;
  readonly #closing = new AbortController();
  /** Aborts when the probe is heard. */
  readonly #probed = new AbortController();

  constructor(factory: ConnectionFactory, clock: Clock, channel: string, events: ConnectionEvents<string>) {
    this.#factory = factory;
    this.#clock = clock;
    this.#channel = channel;
    this.#events = events;
    void this.#open();
  }

  async checkAlive(): Promise<void> {
    await this.#connection?.run({ text: 'SELECT' }, null);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#connection?.close();
  }

  async #open(): Promise<void> {
    try {
      const connection = await this.#connect(() => this.#events.onEnd());
      this.#connection = connection;
      this.isDirect = connection.isDirect;
      connection.setKeepAlive(false);
      // One that broke meanwhile could not hear anything, with or without a pooler.
      if (!connection.isDirect && !(await this.#isHeardThroughPooler(connection)))
        this.#events.onEnd(connection.isOpen);
      else {
        await connection.run({ text: `LISTEN "${this.#channel}"; LISTEN "${EVICTIONS}"` });
        await connection.run({
          text: `SELECT pg_advisory_lock(hashtextextended('${this.#channel}', ${CHANNEL_SALT}))::text`,
        });
        this.#events.onUp();
      }
    } catch {
      this.#events.onEnd();
    }
    if (this.#closing.signal.aborted) await this.#connection?.close();
  }

  #connect(onClose: () => void): Promise<Connection> {
    return Connection.open(this.#factory, {
      clock: this.#clock,
      onClose,
      signal: this.#closing.signal,
      onNotification: (on, payload) => {
        if (on === EVICTIONS) this.#events.onMessage(`e${payload}`);
        if (on !== this.#channel) return;
        if (payload === PROBE) this.#probed.abort();
        else this.#events.onMessage(payload);
      },
    });
  }

  /** LISTEN does not work in transaction mode. A pooler in session mode passes a notification on. */
  async #isHeardThroughPooler(connection: Connection): Promise<boolean> {
    const channel = this.#channel;
    const other = await this.#connect(() => {});
    try {
      const own = await backendOf(connection);
      if (await sharesBackends(connection, other)) return false;
      await connection.run({ text: `LISTEN "${channel}"` });
      await other.run({ text: `SELECT pg_notify('${channel}', '${PROBE}')::text` });
      const { signal } = this.#probed;
      if (!signal.aborted) await pause(this.#clock, PROBE_MS, { signal });
      return signal.aborted && (await backendOf(connection)) === own;
    } finally {
      await other.close();
    }
  }
}
