import { type EventEmitter, errorMonitor } from 'node:events';

/** The server has refused the client's login or rights. Another attempt cannot succeed by itself. */
const REFUSED = /\b(WRONGPASS|NOAUTH|NOPERM)\b/;

/** What ioredis says after any error that has closed its connection. */
const CLOSED = 'Connection is closed.';

/** Which events a client emits. */
export interface ClientEventNames {
  /** When it is connected. */
  readonly ready: string;
  /** When it has ended, or may have. */
  readonly ended: readonly string[];
  /** When its connection has broken, or may have. */
  readonly breaks: readonly string[];
}

const shared = new WeakMap<object, ConnectionErrors>();

/**
 * The errors of a client that is not connected. They are observed, not handled: a listener for
 * `error` would hide them from an owner that has none. All stores over one client share this.
 */
export class ConnectionErrors {
  readonly #client: EventEmitter;
  readonly #events: ClientEventNames;
  readonly #onRefused = new Set<() => void>();
  #users = 0;
  /** The last error since the client was connected. */
  last: Error | null = null;
  /** How often the connection has broken. */
  breaks = 0;

  /** Each user calls `leave` once. */
  static of(client: object, events: ClientEventNames): ConnectionErrors {
    const errors = shared.get(client) ?? new ConnectionErrors(client as EventEmitter, events);
    shared.set(client, errors);
    errors.#users += 1;
    if (errors.#users === 1) errors.#listen('on');
    return errors;
  }

  private constructor(client: EventEmitter, events: ClientEventNames) {
    this.#client = client;
    this.#events = events;
  }

  get isRefused(): boolean {
    return this.last !== null && REFUSED.test(this.last.message);
  }

  /**
   * Calls back once: when the client is ready, has ended or is refused. The result cancels that and
   * removes every listener.
   */
  onceReady(callback: () => void): () => void {
    const events = [this.#events.ready, ...this.#events.ended];
    const stop = (): void => {
      for (const event of events) this.#client.off(event, done);
      this.#onRefused.delete(done);
    };
    const done = (): void => {
      stop();
      callback();
    };
    for (const event of events) this.#client.on(event, done);
    this.#onRefused.add(done);
    return stop;
  }

  leave(): void {
    this.#users -= 1;
    if (this.#users === 0) this.#listen('off');
  }

  #listen(verb: 'on' | 'off'): void {
    this.#client[verb](errorMonitor, this.record);
    // An ioredis Cluster: the error of one node. Its `error` only says that all of them failed.
    this.#client[verb]('node error', this.record);
    this.#client[verb](this.#events.ready, this.#forget);
    for (const event of this.#events.breaks) this.#client[verb](event, this.#onBreak);
  }

  /** Also for errors that the client does not emit, such as the rejection of its `connect`. */
  readonly record = (error: unknown): void => {
    const recorded = withoutSecrets(error);
    if (recorded.message === CLOSED && this.last !== null) return;
    this.last = recorded;
    if (this.isRefused) for (const callback of [...this.#onRefused]) callback();
  };

  readonly #onBreak = (): void => {
    this.breaks += 1;
  };

  readonly #forget = (): void => {
    this.last = null;
  };
}

/** ioredis adds the command to its error. The command of a login holds the password. */
function withoutSecrets(error: unknown): Error {
  const { lastNodeError } = (error ?? {}) as { readonly lastNodeError?: unknown };
  const cause = lastNodeError ?? error;
  if (!(cause instanceof Error)) return new Error(String(cause));
  if (!('command' in cause)) return cause;
  const clean = new Error(cause.message);
  clean.name = cause.name;
  return clean;
}
