import { type Link, type Listening, reconnectDelayMs } from './link.ts';

/** What is used of a node-redis client. */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly options?: { readonly socket?: object | undefined } | undefined;
  sendCommand(args: string[]): Promise<unknown>;
  connect(): Promise<unknown>;
  duplicate(override?: object): NodeRedisClient;
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  destroy(): void;
  on(event: string, listener: (...args: string[]) => void): unknown;
  once(event: string, listener: (...args: string[]) => void): unknown;
  off(event: string, listener: (...args: string[]) => void): unknown;
}

export function nodeRedisLink(client: NodeRedisClient): Link {
  return new NodeRedisLink(client);
}

class NodeRedisLink implements Link {
  readonly keyPrefix = '';
  /** This client never sends twice: what has no answer when the connection breaks is rejected. */
  readonly breaks = 0;
  readonly #client: NodeRedisClient;

  constructor(client: NodeRedisClient) {
    this.#client = client;
  }

  get isReady(): boolean {
    return this.#client.isReady;
  }

  get whyClosed(): string | null {
    return this.#client.isOpen ? null : 'the client is not open: call its connect() first';
  }

  onceReady(callback: () => void): void {
    const done = (): void => {
      this.#client.off('ready', done);
      this.#client.off('end', done);
      callback();
    };
    this.#client.once('ready', done);
    this.#client.once('end', done);
  }

  send(name: string, args: string[]): Promise<unknown> {
    return this.#client.sendCommand([name, ...args]);
  }

  listen(channel: string, listening: Listening): { close(): Promise<void> } {
    const socket = { ...this.#client.options?.socket, reconnectStrategy: reconnectDelayMs };
    const subscriber = this.#client.duplicate({ socket });
    const listener = new NodeRedisListener(subscriber, channel, listening);
    void listener.start();
    return { close: async () => listener.close() };
  }

  leave(): void {}

  async close(): Promise<void> {
    closeQuietly(this.#client);
  }
}

class NodeRedisListener {
  readonly #client: NodeRedisClient;
  readonly #channel: string;
  readonly #listening: Listening;
  #closed = false;

  constructor(client: NodeRedisClient, channel: string, listening: Listening) {
    this.#client = client;
    this.#channel = channel;
    this.#listening = listening;
    // An error event without a listener would end the process.
    client.on('error', () => this.#onDown());
    client.on('reconnecting', () => this.#onDown());
    client.on('end', () => this.#onDown());
  }

  async start(): Promise<void> {
    try {
      await this.#client.connect();
    } catch {
      this.close();
      return;
    }
    await this.#subscribe();
  }

  async #subscribe(): Promise<void> {
    try {
      await this.#client.subscribe(this.#channel, (message: string) => this.#listening.onMessage(message));
      if (this.#closed) return;
      this.#listening.onUp();
      // The client subscribes again by itself before it says that it is ready again.
      this.#client.on('ready', () => this.#listening.onUp());
    } catch {
      if (this.#closed) return;
      // Refused, by an ACL for example: waiters poll.
      if (this.#client.isReady) this.close();
      // The connection broke before the answer. The client forgets what was not confirmed, so it is asked again over the next one.
      else this.#client.once('ready', () => void this.#subscribe());
    }
  }

  close(): void {
    this.#closed = true;
    closeQuietly(this.#client);
  }

  #onDown(): void {
    if (!this.#closed) this.#listening.onDown();
  }
}

function closeQuietly(client: NodeRedisClient): void {
  if (client.isOpen) client.destroy();
}
