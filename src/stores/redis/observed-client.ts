import { ConnectionErrors } from './connection-errors.ts';

/** The part of an event emitter that all clients have. */
export interface ClientEvents {
  on(event: string, listener: (...args: string[]) => void): unknown;
  once(event: string, listener: (...args: string[]) => void): unknown;
  off(event: string, listener: (...args: string[]) => void): unknown;
}

/** Which events a client emits. */
interface EventNames {
  /** When it is connected. */
  readonly ready: string;
  /** When it has ended, or may have. */
  readonly ended: readonly string[];
}

/** A client whose errors are observed: the part that every connection over a client has. */
export abstract class ObservedClient<Client extends ClientEvents> {
  protected readonly client: Client;
  protected readonly errors: ConnectionErrors;
  readonly #events: EventNames;

  constructor(client: Client, events: EventNames = { ready: 'ready', ended: ['end'] }) {
    this.client = client;
    this.errors = ConnectionErrors.of(client, events.ready);
    this.#events = events;
  }

  get lastError(): Error | null {
    return this.errors.last;
  }

  get isRefused(): boolean {
    return this.errors.isRefused;
  }

  onceReady(callback: () => void): () => void {
    const { ready, ended } = this.#events;
    return this.errors.once([ready, ...ended], callback);
  }

  leave(): void {
    this.errors.leave();
  }
}
