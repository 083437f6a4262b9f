import type { SubscribedConnection } from '../shared/subscription.ts';
import { type ChannelEvents, OWN_SILENCE_MS, ping, type RedisConnection } from './connection.ts';
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
  #isReconnecting = false;

  constructor(client: NodeRedisClient) {
    super(client, { breaks: ['reconnecting', 'end'] });
  }

  get isReady(): boolean {
    return this.client.isReady;
  }

  get closedReason(): string | null {
    return closedReasonOf(this.client);
  }

  get silence() {
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
    // A connection that has ended is replaced by the caller.
    const own = OwnClient.like(this.client, { socket: { reconnectStrategy: false } });
    const { client } = own;
    for (const event of ['error', 'end']) client.on(event, () => listening.onEnd());
    own
      .connect()
      .then(() => client.subscribe(channels, (message) => listening.onMessage(message)))
      .then(
        () => listening.onUp(),
        // Refused, by an ACL for example.
        () => listening.onEnd(),
      );
    return {
      close: () => own.end(),
      // An error is an answer too, for example that PING is not allowed.
      checkAlive: () => client.sendCommand(['PING']).catch(() => {}),
    };
  }

  protected override setListeners(verb: 'on' | 'off'): void {
    super.setListeners(verb);
    this.client[verb]('reconnecting', this.#onReconnecting);
    this.client[verb]('connect', this.#rejectLostCommands);
  }

  async close(): Promise<void> {
    OwnClient.of(this.client)?.end();
  }

  readonly #onReconnecting = (): void => {
    this.#isReconnecting = true;
  };

  /**
   * node-redis 5 may write a command to a socket that has just broken, and then waits for its
   * reply. It takes the first reply of the next connection for that one, and each later reply for
   * the command before its own. So it waits for ever for the last reply of its handshake, and never
   * becomes ready again. To prevent that, commands that have no reply when a new connection begins
   * are rejected. Version 6 does so by itself.
   */
  readonly #rejectLostCommands = (): void => {
    if (!this.#isReconnecting) return;
    this.#isReconnecting = false;
    // Not part of the public interface of node-redis.
    const { _getQueue } = this.client as { _getQueue?(): { flushWaitingForReply?(error: Error): void } };
    _getQueue?.call(this.client).flushWaitingForReply?.(new Error('The connection broke before the reply'));
  };
}
