import { type EventEmitter, errorMonitor } from 'node:events';

/** The part of an event emitter that all clients have. */
export interface ClientEvents {
  on(event: string, listener: (...args: string[]) => void): unknown;
  once(event: string, listener: (...args: string[]) => void): unknown;
  off(event: string, listener: (...args: string[]) => void): unknown;
}

/** The server has refused the client's login or rights. Another attempt cannot succeed by itself. */
const REFUSED = /\b(WRONGPASS|NOAUTH|NOPERM)\b/;

/** What ioredis says after any error that has closed its connection. */
const CLOSED = 'Connection is closed.';

/** Which events a client emits. */
interface ClientEventNames {
  /** When it is connected. */
  readonly ready: string;
  /** When it has ended, or may have. */
  readonly ended: readonly (string | symbol)[];
  /** When its connection has broken, or may have. */
  readonly breaks: readonly string[];
}

const SHARED = new WeakMap<object, ObservedClient<ClientEvents>>();

/**
 * All stores over one client share what is made for it, so that the listeners on the client do not
 * grow with the number of stores.
 */
export function sharedOver<Observed extends ObservedClient<ClientEvents>>(
  client: object,
  make: () => Observed,
): Observed {
  const observed = (SHARED.get(client) as Observed | undefined) ?? make();
  SHARED.set(client, observed);
  return observed.use();
}

/**
 * The part that every connection over a client has. The client's errors are observed, not handled:
 * a listener for `error` would hide them from an owner that has none.
 */
export abstract class ObservedClient<Client extends ClientEvents> {
  protected readonly client: Client;
  readonly #events: ClientEventNames;
  /** The callers that wait for the client. One listener serves all of them. */
  readonly #waiting = new Set<() => void>();
  #users = 0;
  #lastError: Error | null = null;
  breaks = 0;

  constructor(client: Client, events: Partial<ClientEventNames> = {}) {
    this.client = client;
    this.#events = { ready: 'ready', ended: ['end'], breaks: [], ...events };
  }

  get lastError(): Error | null {
    return this.#lastError;
  }

  get isRefused(): boolean {
    return this.#lastError !== null && REFUSED.test(this.#lastError.message);
  }

  /** Listens to the client. Each user calls `leave` once. */
  use(): this {
    this.#users += 1;
    if (this.#users === 1) this.setListeners('on');
    return this;
  }

  leave(): void {
    this.#users -= 1;
    if (this.#users === 0) this.setListeners('off');
  }

  onceReady(callback: () => void): () => void {
    this.#waiting.add(callback);
    return () => void this.#waiting.delete(callback);
  }

  protected setListeners(verb: 'on' | 'off'): void {
    const client = this.client as unknown as EventEmitter;
    client[verb](errorMonitor, this.recordError);
    // An ioredis Cluster: the error of one node. Its `error` only says that all of them failed.
    client[verb]('node error', this.recordError);
    client[verb](this.#events.ready, this.#onReady);
    for (const event of this.#events.ended) client[verb](event, this.#endWaiting);
    for (const event of this.#events.breaks) client[verb](event, this.#onBreak);
  }

  /** Also for errors that the client does not emit, such as the rejection of its `connect`. */
  protected readonly recordError = (error: unknown): void => {
    const recorded = withoutSecrets(error);
    if (recorded.message === CLOSED && this.#lastError !== null) return;
    this.#lastError = recorded;
    if (this.isRefused) this.#endWaiting();
  };

  readonly #onBreak = (): void => {
    this.breaks += 1;
  };

  readonly #onReady = (): void => {
    this.#lastError = null;
    this.#endWaiting();
  };

  readonly #endWaiting = (): void => {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const callback of waiting) callback();
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
