import type { NodeRedisClient } from './node-redis-connection.ts';

/** The delay before a connection of ours is made again: from 50 ms to 2 s. */
export const reconnectDelayMs = (attempt: number): number => Math.min(50 * 2 ** attempt, 2_000);

const known = new WeakMap<object, OwnClient<NodeRedisClient>>();

/**
 * A node-redis client that we have opened, and that can be ended at any time. A client that is
 * destroyed while it connects forgets the connection, which is still made and never ended. So such
 * a client is destroyed when its attempt to connect is over.
 */
export class OwnClient<C extends NodeRedisClient> {
  readonly client: C;
  #isConnecting = false;
  #isEnded = false;

  constructor(client: C) {
    this.client = client;
    known.set(client, this);
    // As `unrefIoredis`, and for every later connection too.
    (client as { unref?(): unknown }).unref?.();
    // Without a listener, an error would end the process. The client pauses after each.
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
