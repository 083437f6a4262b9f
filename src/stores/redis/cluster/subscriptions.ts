import type { Clock, Timer } from '../../../clock.ts';
import { type ChannelEvents, reconnectDelayMs } from '../connection.ts';
import type { ClusterNode, Subscriber } from './nodes.ts';

/** Which node serves a slot, and how to find out again. */
export interface SlotOwners {
  /** `null`: none is known. */
  masterOf(slot: number): ClusterNode | null;
  loadTable(): Promise<void>;
}

interface ChannelSubscription {
  readonly channels: readonly string[];
  readonly slot: number;
  readonly listening: ChannelEvents;
  /** The connection over which it is subscribed, or will be; `null` between two attempts. */
  connection: Connection | null;
  attempts: number;
  timer: Timer | null;
}

/** A connection to one node, for the channels of all of its slots. */
interface Connection {
  readonly node: ClusterNode;
  readonly subscriber: Subscriber;
  readonly channels: Map<string, ChannelSubscription>;
}

/**
 * Subscriptions to sharded channels. Each is made at the master of its slot, and follows the slot
 * to another node.
 */
export class Subscriptions {
  readonly #clock: Clock;
  readonly #owners: SlotOwners;
  readonly #all = new Set<ChannelSubscription>();
  readonly #connections = new Map<ClusterNode, Connection>();

  constructor(clock: Clock, owners: SlotOwners) {
    this.#clock = clock;
    this.#owners = owners;
  }

  /** The channels belong to this slot. */
  add(channels: readonly string[], slot: number, listening: ChannelEvents): { close(): Promise<void> } {
    const subscription: ChannelSubscription = {
      channels,
      slot,
      listening,
      connection: null,
      attempts: 0,
      timer: null,
    };
    this.#all.add(subscription);
    this.#subscribe(subscription);
    return {
      close: async () => {
        this.#all.delete(subscription);
        subscription.timer?.cancel();
        this.#leave(subscription);
      },
    };
  }

  /** Some slots are served by other nodes now. */
  onMoved(): void {
    for (const subscription of this.#all) {
      const { connection, slot } = subscription;
      if (connection === null || this.#owners.masterOf(slot) === connection.node) continue;
      this.#leave(subscription);
      subscription.listening.onDown();
      this.#subscribe(subscription);
    }
  }

  close(): void {
    for (const subscription of this.#all) subscription.timer?.cancel();
    this.#all.clear();
    for (const { subscriber } of this.#connections.values()) subscriber.close();
    this.#connections.clear();
  }

  #subscribe(subscription: ChannelSubscription): void {
    const { channels, slot, listening } = subscription;
    const node = this.#owners.masterOf(slot);
    if (node === null) {
      this.#subscribeLater(subscription);
      return;
    }
    const connection = this.#connections.get(node) ?? this.#connect(node);
    for (const channel of channels) connection.channels.set(channel, subscription);
    subscription.connection = connection;
    Promise.all(channels.map((channel) => connection.subscriber.subscribe(channel))).then(
      () => {
        if (subscription.connection !== connection) return;
        subscription.attempts = 0;
        listening.onUp();
      },
      () => {
        if (subscription.connection !== connection) return;
        this.#leave(subscription);
        this.#subscribeLater(subscription);
      },
    );
  }

  #subscribeLater(subscription: ChannelSubscription): void {
    if (!this.#all.has(subscription)) return;
    subscription.timer?.cancel();
    subscription.timer = this.#clock.startTimer(reconnectDelayMs(subscription.attempts++), () => {
      void this.#owners.loadTable().then(() => {
        if (this.#all.has(subscription) && subscription.connection === null) this.#subscribe(subscription);
      });
    });
  }

  #connect(node: ClusterNode): Connection {
    const channels = new Map<string, ChannelSubscription>();
    const subscriber = node.subscriber({
      onMessage: (channel, message) => channels.get(channel)?.listening.onMessage(message),
      onEnd: () => this.#onEnd(connection),
    });
    const connection: Connection = { node, subscriber, channels };
    this.#connections.set(node, connection);
    return connection;
  }

  #onEnd(connection: Connection): void {
    if (this.#connections.get(connection.node) === connection) this.#connections.delete(connection.node);
    connection.subscriber.close();
    for (const subscription of connection.channels.values()) {
      if (subscription.connection !== connection) continue;
      subscription.connection = null;
      subscription.listening.onDown();
      this.#subscribeLater(subscription);
    }
    connection.channels.clear();
  }

  #leave(subscription: ChannelSubscription): void {
    const { connection, channels } = subscription;
    subscription.connection = null;
    if (connection === null) return;
    for (const channel of channels) connection.channels.delete(channel);
    if (connection.channels.size > 0) return;
    if (this.#connections.get(connection.node) === connection) this.#connections.delete(connection.node);
    connection.subscriber.close();
  }
}
