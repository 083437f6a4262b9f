import { reconnectDelayMs } from './link.ts';
import type { NodeRedisClient } from './node-redis-link.ts';

/**
 * A client of node-redis that is ours, made like the user's, and that can be ended at any time. The library itself forgets a connection that it is making when it is destroyed meanwhile: that
 * one is made all the same, keeps the process alive, and nobody can end it any more. So a try under way is waited for.
 */
export class OwnClient<C extends NodeRedisClient> {
  readonly client: C;
  #isTrying = false;
  #isEnded = false;

  constructor(like: C, override: { readonly socket?: object; readonly [option: string]: unknown } = {}) {
    const reconnectStrategy = (attempt: number): number | false =>
      this.#isEnded ? false : reconnectDelayMs(attempt);
    const socket = { ...like.options?.socket, ...override.socket, reconnectStrategy };
    this.client = like.duplicate({ ...override, socket }) as C;
    // An error event without a listener would end the process. After it, the client rests before it tries again.
    this.client.on('error', () => this.#onTried());
    this.client.on('ready', () => this.#onTried());
    this.client.on('reconnecting', () => {
      this.#isTrying = true;
    });
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
