import { type ClientEventNames, ConnectionErrors } from './connection-errors.ts';

/** The part of an event emitter that all clients have. */
export interface ClientEvents {
  on(event: string, listener: (...args: string[]) => void): unknown;
  once(event: string, listener: (...args: string[]) => void): unknown;
  off(event: string, listener: (...args: string[]) => void): unknown;
}

/** A client whose errors are observed: the part that every connection over a client has. */
export abstract class ObservedClient<Client extends ClientEvents> {
  protected readonly client: Client;
  protected readonly errors: ConnectionErrors;

  constructor(client: Client, events: Partial<ClientEventNames> = {}) {
    this.client = client;
    this.errors = ConnectionErrors.of(client, { ready: 'ready', ended: ['end'], breaks: [], ...events });
  }

  get lastError(): Error | null {
    return this.errors.last;
  }

  get isRefused(): boolean {
    return this.errors.isRefused;
  }

  get breaks(): number {
    return this.errors.breaks;
  }

  onceReady(callback: () => void): () => void {
    return this.errors.onceReady(callback);
  }

  leave(): void {
    this.errors.leave();
  }
}
