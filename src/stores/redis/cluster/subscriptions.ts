import type { Clock, Timer } from '../../../clock.ts';
import { type Listening, reconnectDelayMs } from '../link.ts';
import type { ClusterNode, Subscriber } from './nodes.ts';

/** Where channels are, and how to find out again. */
export interface Places {
  /** `null`: nobody is known to serve this slot. */
  nodeOf(slot: number): ClusterNode | null;
  look(): Promise<void>;
}

interface Subscription {
  readonly channel: string;
  readonly slot: number;
  readonly listening: Listening;
  /** Where it is subscribed, or being so. */
  connection: Connection | null;
  attempts: number;
  timer: Timer | null;
}

/** One connection to one node, for all channels of its slots. */
interface Connection {
  readonly node: ClusterNode;
  readonly subscriber: Subscriber;
  readonly channels: Map<string, Subscription>;
}

/** Sharded channels: each is listened to at the master of its slot, and follows it when another node becomes that. */
export class Subscriptions {
  readonly #clock: Clock;
  readonly #places: Places;
  readonly #all = new Set<Subscription>();
  readonly #connections = new Map<ClusterNode, Connection>();

  constructor(clock: Clock, places: Places) {
    this.#clock = clock;
    this.#places = places;
  }

  add(channel: string, slot: number, listening: Listening): { close(): Promise<void> } {
    const subscription: Subscription = {
      channel,
      slot,
      listening,
      connection: null,
      attempts: 0,
      timer: null,
    };
    this.#all.add(subscription);
    this.#place(subscription);
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
      if (connection === null || this.#places.nodeOf(slot) === connection.node) continue;
      this.#leave(subscription);
      subscription.listening.onDown();
      this.#place(subscription);
    }
  }

  close(): void {
    for (const subscription of this.#all) subscription.timer?.cancel();
    this.#all.clear();
    for (const { subscriber } of this.#connections.values()) subscriber.close();
    this.#connections.clear();
  }

  #place(subscription: Subscription): void {
    const { channel, slot, listening } = subscription;
    const node = this.#places.nodeOf(slot);
    if (node === null) {
      this.#placeLater(subscription);
      return;
    }
    const connection = this.#connections.get(node) ?? this.#connect(node);
    connection.channels.set(channel, subscription);
    subscription.connection = connection;
    connection.subscriber.subscribe(channel).then(
      () => {
        if (subscription.connection !== connection) return;
        subscription.attempts = 0;
        listening.onUp();
      },
      () => {
        if (subscription.connection !== connection) return;
        this.#leave(subscription);
        this.#placeLater(subscription);
      },
    );
  }

  #placeLater(subscription: Subscription): void {
    if (!this.#all.has(subscription)) return;
    subscription.timer?.cancel();
    subscription.timer = this.#clock.startTimer(reconnectDelayMs(subscription.attempts++), () => {
      void this.#places.look().then(() => {
        if (this.#all.has(subscription) && subscription.connection === null) this.#place(subscription);
      });
    });
  }

  #connect(node: ClusterNode): Connection {
    const channels = new Map<string, Subscription>();
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
      this.#placeLater(subscription);
    }
    connection.channels.clear();
  }

  #leave(subscription: Subscription): void {
    const { connection, channel } = subscription;
    subscription.connection = null;
    if (connection === null) return;
    connection.channels.delete(channel);
    if (connection.channels.size > 0) return;
    if (this.#connections.get(connection.node) === connection) this.#connections.delete(connection.node);
    connection.subscriber.close();
  }
}
