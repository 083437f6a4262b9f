import type { SubscribedConnection } from '../shared/subscription.ts';
import {
  type ChannelEvents,
  OWN_SILENCE_MS,
  ping,
  type RedisConnection,
  type Silence,
} from './connection.ts';
import { rejectLostCommands } from './node-redis-lost-commands.ts';
import { type ClientEvents, ObservedClient } from './observed-client.ts';
import { OwnClient } from './own-client.ts';

/** What is used of a node-redis client. */
export interface NodeRedisClient extends ClientEvents {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly options?: { readonly socket?: object | undefined } | undefined;
  sendCommand(args: string[]): Promise<unknown>;
  connect(): Promise<unknown>;
  duplicate(override?: object): NodeRedisClient;
  subscribe(channels: string[], listener: (message: string) => void): Promise<unknown>;
  destroy(): void;
}

/** Why a client of node-redis cannot be used; `null` while it can. */
export function closedReasonOf({ isOpen }: { readonly isOpen: boolean }): string | null {
  return isOpen ? null : 'the client is not open: it has been closed, or its connect() was not called';
}

export class NodeRedisConnection extends ObservedClient<NodeRedisClient> implements RedisConnection {
  readonly keyPrefix = '';
  /** This client never sends twice: commands without a reply are rejected when the connection breaks. */
  readonly breaks = 0;
  readonly #stopRejecting: () => void;
  #session = 0;
  readonly #onBreak = (): void => {
    this.#session += 1;
  };

  constructor(client: NodeRedisClient) {
    super(client);
    this.#stopRejecting = rejectLostCommands(client, this.#onBreak);
    client.on('end', this.#onBreak);
  }

  get session(): number {
    return this.#session;
  }

  get isReady(): boolean {
    return this.client.isReady;
  }

  get closedReason(): string | null {
    return closedReasonOf(this.client);
  }

  get silence(): Silence | null {
    const own = OwnClient.of(this.client);
    return own === null ? null : { afterMs: OWN_SILENCE_MS, reconnect: () => own.replaceConnection() };
  }

  send(name: string, args: string[]): Promise<unknown> {
    return this.client.sendCommand([name, ...args]);
  }

  sendYielding(name: string, args: string[]): Promise<unknown> {
    // The client writes the commands of one tick together.
    ping(this);
    return this.send(name, args);
  }

  listen(channels: string[], listening: ChannelEvents): SubscribedConnection {
    const listener = new NodeRedisListener(OwnClient.like(this.client), channels, listening);
    void listener.start();
    return listener;
  }

  override leave(): void {
    super.leave();
    this.#stopRejecting();
    this.client.off('end', this.#onBreak);
  }

  async close(): Promise<void> {
    OwnClient.end(this.client);
  }
}

class NodeRedisListener {
  readonly #own: OwnClient<NodeRedisClient>;
  readonly #client: NodeRedisClient;
  readonly #channels: string[];
  readonly #listening: ChannelEvents;
  #closed = false;

  constructor(own: OwnClient<NodeRedisClient>, channels: string[], listening: ChannelEvents) {
    const { client } = own;
    this.#own = own;
    this.#client = client;
    this.#channels = channels;
    this.#listening = listening;
    client.on('error', () => this.#onDown());
    client.on('reconnecting', () => this.#onDown());
    client.on('end', () => this.#onDown());
  }

  async start(): Promise<void> {
    try {
      await this.#own.connect();
    } catch {
      this.#listening.onEnd();
      return;
    }
    if (!this.#closed) await this.#subscribe();
  }

  async #subscribe(): Promise<void> {
    try {
      await this.#client.subscribe(this.#channels, (message: string) => this.#listening.onMessage(message));
      if (this.#closed) return;
      this.#listening.onUp();
      // The client subscribes again by itself before it emits `ready` again.
      this.#client.on('ready', () => this.#listening.onUp());
    } catch {
      if (this.#closed) return;
      // Refused, by an ACL for example.
      if (this.#client.isReady) this.#listening.onEnd();
      // The connection broke before the answer, and the client forgets a subscription that was not
      // confirmed.
      else this.#client.once('ready', () => void this.#subscribe());
    }
  }

  /** An error is an answer too, for example that PING is not allowed. */
  checkAlive(): Promise<unknown> {
    return this.#client.sendCommand(['PING']).catch(() => {});
  }

  close(): void {
    this.#closed = true;
    this.#own.end();
  }

  #onDown(): void {
    if (!this.#closed) this.#listening.onDown();
  }
}
