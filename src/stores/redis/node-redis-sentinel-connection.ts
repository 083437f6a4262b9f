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

/**
 * A client that follows the master which the Sentinels name. When the master changes, it sends
 * commands without a reply again by itself.
 */
export class NodeRedisSentinelConnection
  extends ObservedClient<NodeRedisSentinel>
  implements RedisConnection
{
  readonly keyPrefix = '';

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
   * The client has a connection of its own for subscriptions, and subscribes again by itself at the
   * next master. Messages in between are lost.
   */
  listen(channels: string[], listening: ChannelEvents): SubscribedConnection {
    let isSubscribed = false;
    const onChange = (): void => {
      // A claim must not name the channel before this process hears it.
      if (!isSubscribed) return;
      listening.onDown();
      listening.onUp();
    };
    this.client.on('topology-change', onChange);
    this.client
      .subscribe(channels, (message) => listening.onMessage(message))
      .then(
        () => {
          isSubscribed = true;
          listening.onUp();
        },
        // Refused, by an ACL for example.
        () => listening.onEnd(),
      );
    return {
      close: async () => {
        this.client.off('topology-change', onChange);
        if (this.client.isOpen) await this.client.unsubscribe(channels).catch(() => {});
      },
    };
  }

  askSentinels(): Promise<never> {
    return Promise.reject(new Error('a Sentinel client of node-redis does not tell its Sentinels'));
  }

  async close(): Promise<void> {
    if (this.client.isOpen) await this.client.destroy();
  }
}
