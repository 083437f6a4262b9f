import { reconnectDelayMs } from './link.ts';
import type { NodeRedisClient } from './node-redis-link.ts';

const known = new WeakMap<object, OwnClient<NodeRedisClient>>();

/**
 * A client of node-redis that is ours, and that can be ended at any time. The library itself forgets a connection that it is making when it is destroyed meanwhile: that one is made all the
 * same, keeps the process alive, and nobody can end it any more. So a try under way is waited for.
 */
export class OwnClient<C extends NodeRedisClient> {
  readonly client: C;
  #isTrying = false;
  #isEnded = false;

  constructor(client: C) {
    this.client = client;
    known.set(client, this);
    // An error event without a listener would end the process. After it, the client rests before it tries again.
    client.on('error', () => this.#onTried());
    client.on('connect', () => this.#onTried());
    client.on('reconnecting', () => {
      this.#isTrying = true;
    });
  }

  /** One more, made like the user's. It tries again whatever the user's own settings are. */
  static like<C extends NodeRedisClient>(
    model: C,
    override: { readonly socket?: object; readonly [option: string]: unknown } = {},
  ): OwnClient<C> {
    const socket = { ...model.options?.socket, ...override.socket, reconnectStrategy: reconnectDelayMs };
    return new OwnClient(model.duplicate({ ...override, socket }) as C);
  }

  /** Ends a client, in its own way if it is ours. */
  static end(client: NodeRedisClient): void {
    const own = known.get(client);
    if (own !== undefined) own.end();
    else if (client.isOpen) client.destroy();
  }

  async connect(): Promise<void> {
    this.#isTrying = true;
    await this.client.connect();
  }

  end(): void {
    this.#isEnded = true;
    if (!this.#isTrying && this.client.isOpen) this.client.destroy();
  }

  #onTried(): void {
    this.#isTrying = false;
    if (this.#isEnded) this.end();
  }
}
