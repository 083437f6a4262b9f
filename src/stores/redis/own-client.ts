import { reconnectDelayMs } from './connection.ts';
import type { NodeRedisClient } from './node-redis-connection.ts';
import { unrefNodeRedis } from './unref.ts';

const known = new WeakMap<object, OwnClient<NodeRedisClient>>();

/**
 * A node-redis client that we have opened, and that can be ended at any time. A client that is
 * destroyed while it connects forgets the connection: the connection is still made, and
 * nothing can end it any more. So such a client is destroyed when its attempt to connect is over.
 */
export class OwnClient<C extends NodeRedisClient> {
  readonly client: C;
  #isConnecting = false;
  #isEnded = false;

  constructor(client: C) {
    this.client = client;
    known.set(client, this);
    unrefNodeRedis(client);
    // An error event without a listener would end the process. After an error, the client pauses
    // before it tries again.
    client.on('error', () => this.#onAttemptOver());
    client.on('connect', () => this.#onAttemptOver());
    client.on('reconnecting', () => {
      this.#isConnecting = true;
    });
  }

  /** A client with the options of `model`, but with retries unless they are overridden. */
  static like<C extends NodeRedisClient>(
    model: C,
    override: { readonly socket?: object; readonly [option: string]: unknown } = {},
  ): OwnClient<C> {
    const socket = { ...model.options?.socket, reconnectStrategy: reconnectDelayMs, ...override.socket };
    return new OwnClient(model.duplicate({ ...override, socket }) as C);
  }

  /** `null` for a client of the user. */
  static of(client: NodeRedisClient): OwnClient<NodeRedisClient> | null {
    return known.get(client) ?? null;
  }

  /** Ends any client. */
  static end(client: NodeRedisClient): void {
    const own = known.get(client);
    if (own !== undefined) own.end();
    else if (client.isOpen) client.destroy();
  }

  async connect(): Promise<void> {
    this.#isConnecting = true;
    await this.client.connect().finally(() => this.#onAttemptOver());
  }

  /** Rejects the commands that have no reply. */
  replaceConnection(): void {
    if (this.#isEnded || !this.client.isReady) return;
    this.client.destroy();
    this.connect().catch(() => {});
  }

  end(): void {
    this.#isEnded = true;
    if (!this.#isConnecting && this.client.isOpen) this.client.destroy();
  }

  #onAttemptOver(): void {
    this.#isConnecting = false;
    if (this.#isEnded) this.end();
  }
}
