import { type EventEmitter, errorMonitor } from 'node:events';
import type { SubscribedConnection } from '../shared/subscription.ts';
import type { ChannelEvents, RedisConnection } from './connection.ts';
import { closedReasonOf } from './node-redis-connection.ts';
import { type ClientEvents, ObservedClient } from './observed-client.ts';

/** What is used of a node-redis Sentinel client. */
export interface NodeRedisSentinel extends ClientEvents {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  sendCommand(isReadonly: boolean | undefined, args: string[]): Promise<unknown>;
  /** Only Sentinel clients have it. */
  acquire(): Promise<unknown>;
  subscribe(channels: string[], listener: (message: string) => void): Promise<unknown>;
  unsubscribe(channels: string[]): Promise<unknown>;
  destroy(): unknown;
}

interface OneListener {
  /** Without the listener, other stores over the client would lose their subscriptions too. */
  unsubscribe(channels: string[], listener: (message: string) => void): Promise<unknown>;
}

/**
 * A client that follows the master which the Sentinels name. When the master changes, it sends
 * commands without a reply again by itself.
 */
export class NodeRedisSentinelConnection
  extends ObservedClient<NodeRedisSentinel>
  implements RedisConnection
{
  readonly keyPrefix = '';
  /** Of the subscriptions of all stores, which may have broken. */
  readonly #resubscribes = new Set<() => void>();

  constructor(client: NodeRedisSentinel) {
    super(client, { breaks: ['topology-change', 'client-error', 'reconnecting'] });
  }

  get isReady(): boolean {
    return this.client.isReady;
  }

  get closedReason(): string | null {
    return closedReasonOf(this.client);
  }

  send(name: string, args: string[]): Promise<unknown> {
    return this.client.sendCommand(false, [name, ...args]);
  }

  /**
   * The client has a connection of its own for subscriptions. When that breaks or the master
   * changes, it subscribes again by itself. Messages in between are lost.
   */
  listen(channels: string[], listening: ChannelEvents): SubscribedConnection {
    const client = this.client as NodeRedisSentinel & OneListener;
    const onMessage = (message: string): void => listening.onMessage(message);
    let isClosed = false;
    const subscribe = async (): Promise<void> => {
      // The client would connect again.
      if (!client.isOpen) throw new Error('the client is closed');
      await client.subscribe(channels, onMessage);
      if (isClosed) await client.unsubscribe(channels, onMessage);
      // While its connection is broken, the client takes known channels for subscribed. It subscribes
      // to them before it sends any other command, such as one for a channel that nobody uses.
      await client.unsubscribe([`${channels[0]}:none`], onMessage).catch((error: Error) => {
        // An error of the server is an answer too.
        if (!error.message.startsWith('NOPERM')) throw error;
      });
    };
    let isUp = false;
    const begin = (): void => {
      subscribe().then(
        () => {
          isUp = true;
          listening.onUp();
        },
        // Refused, by an ACL for example.
        () => listening.onEnd(),
      );
    };
    const resubscribe = (): void => {
      // A claim must not name the channel before this process hears it.
      if (!isUp) return;
      isUp = false;
      listening.onDown();
      begin();
    };
    this.#resubscribes.add(resubscribe);
    begin();
    return {
      close: async () => {
        isClosed = true;
        this.#resubscribes.delete(resubscribe);
        if (client.isOpen) await client.unsubscribe(channels, onMessage).catch(() => {});
      },
      checkAlive: subscribe,
    };
  }

  protected override setListeners(verb: 'on' | 'off'): void {
    super.setListeners(verb);
    const client = this.client as unknown as EventEmitter;
    // The client reports a broken connection by an error, and by nothing else.
    for (const event of ['topology-change', errorMonitor]) client[verb](event, this.#resubscribe);
  }

  readonly #resubscribe = (): void => {
    for (const resubscribe of [...this.#resubscribes]) resubscribe();
  };

  askSentinels(): Promise<never> {
    return Promise.reject(new Error('a Sentinel client of node-redis does not tell its Sentinels'));
  }

  async close(): Promise<void> {
    if (this.client.isOpen) await this.client.destroy();
  }
}
