import { Complaints } from './complaints.ts';
import { type Link, type Listening, ping } from './link.ts';
import { OwnClient } from './own-client.ts';

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
  readonly #complaints: Complaints;

  constructor(client: NodeRedisClient) {
    this.#client = client;
    this.#complaints = Complaints.of(client, 'ready');
  }

  get lastError(): Error | null {
    return this.#complaints.last;
  }

  get isRefused(): boolean {
    return this.#complaints.isRefused;
  }

  get isReady(): boolean {
    return this.#client.isReady;
  }

  get whyClosed(): string | null {
    return this.#client.isOpen
      ? null
      : 'the client is not open: it has been closed, or its connect() was not called';
  }

  onceReady(callback: () => void): void {
    const done = (): void => {
      this.#client.off('ready', done);
      this.#client.off('end', done);
      stopHearing();
      callback();
    };
    const stopHearing = this.#complaints.onRefused(done);
    this.#client.once('ready', done);
    this.#client.once('end', done);
  }

  send(name: string, args: string[]): Promise<unknown> {
    return this.#client.sendCommand([name, ...args]);
  }

  sendYielding(name: string, args: string[]): Promise<unknown> {
    // What is asked in one tick is written in one go.
    ping(this);
    return this.send(name, args);
  }

  listen(channel: string, listening: Listening): { close(): Promise<void> } {
    const listener = new NodeRedisListener(OwnClient.like(this.#client), channel, listening);
    void listener.start();
    return { close: async () => listener.close() };
  }

  leave(): void {
    this.#complaints.leave();
  }

  async close(): Promise<void> {
    OwnClient.end(this.#client);
  }
}

class NodeRedisListener {
  readonly #own: OwnClient<NodeRedisClient>;
  readonly #client: NodeRedisClient;
  readonly #channel: string;
  readonly #listening: Listening;
  #closed = false;

  constructor(own: OwnClient<NodeRedisClient>, channel: string, listening: Listening) {
    const { client } = own;
    this.#own = own;
    this.#client = client;
    this.#channel = channel;
    this.#listening = listening;
    client.on('error', () => this.#onDown());
    client.on('reconnecting', () => this.#onDown());
    client.on('end', () => this.#onDown());
  }

  async start(): Promise<void> {
    try {
      await this.#own.connect();
    } catch {
      this.close();
      return;
    }
    if (!this.#closed) await this.#subscribe();
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
    this.#own.end();
  }

  #onDown(): void {
    if (!this.#closed) this.#listening.onDown();
  }
}
