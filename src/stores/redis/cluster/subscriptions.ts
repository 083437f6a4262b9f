import type { Clock } from '../../../clock.ts';
import { pause, settlesWithin } from '../../../util/backoff.ts';
import type { ChannelEvents } from '../connection.ts';
import type { ClusterNode, Subscriber } from './nodes.ts';

interface ChannelSubscription {
  readonly channels: readonly string[];
  readonly slot: number;
  readonly events: ChannelEvents;
}

/** How often a connection is checked, because a dead one reports nothing. */
const HEARTBEAT_MS = 5_000;
/** How long the answer may take. */
const ANSWER_MS = 3_000;

/** A connection to one node, for the channels of all of its slots. */
interface Connection {
  readonly node: ClusterNode;
  readonly subscriber: Subscriber;
  readonly channels: Map<string, ChannelSubscription>;
  readonly dropped: AbortController;
}

/**
 * Subscriptions to sharded channels, at the masters of their slots. A subscription ends when
 * another node serves its slot: the owner then subscribes again.
 */
export class Subscriptions {
  readonly #masterOf: (slot: number) => ClusterNode | null;
  readonly #loadTable: () => Promise<void>;
  readonly #clock: Clock;
  readonly #connections = new Map<ClusterNode, Connection>();

  constructor(masterOf: (slot: number) => ClusterNode | null, loadTable: () => Promise<void>, clock: Clock) {
    this.#clock = clock;
    this.#masterOf = masterOf;
    this.#loadTable = loadTable;
  }

  add(channels: readonly string[], slot: number, events: ChannelEvents): { close(): void } {
    const node = this.#masterOf(slot);
    if (node === null) {
      this.#end([{ events }]);
      return { close() {} };
    }
    const subscription = { channels, slot, events };
    const connection = this.#connections.get(node) ?? this.#connect(node);
    for (const channel of channels) connection.channels.set(channel, subscription);
    Promise.all(channels.map((channel) => connection.subscriber.subscribe(channel))).then(
      () => events.onUp(),
      () => {
        const isClosed = channels.every((channel) => connection.channels.get(channel) !== subscription);
        if (!isClosed) this.#end([subscription]);
      },
    );
    return { close: () => this.#leave(connection, subscription) };
  }

  onMoved(): void {
    for (const { node, channels } of this.#connections.values()) {
      const moved = [...channels.values()].filter(({ slot }) => this.#masterOf(slot) !== node);
      if (moved.length > 0) this.#end(moved);
    }
  }

  close(): void {
    for (const connection of this.#connections.values()) {
      connection.channels.clear();
      this.#drop(connection);
    }
  }

  #connect(node: ClusterNode): Connection {
    const channels = new Map<string, ChannelSubscription>();
    const subscriber = node.subscriber({
      onMessage: (channel, message) => channels.get(channel)?.events.onMessage(message),
      onEnd: () => this.#onEnd(connection),
    });
    const connection = { node, subscriber, channels, dropped: new AbortController() };
    this.#connections.set(node, connection);
    void this.#watch(connection);
    return connection;
  }

  async #watch(connection: Connection): Promise<void> {
    const { subscriber, dropped } = connection;
    do {
      await pause(this.#clock, HEARTBEAT_MS, { signal: dropped.signal });
      if (dropped.signal.aborted) return;
    } while (await settlesWithin(this.#clock, subscriber.checkAlive(), ANSWER_MS));
    this.#onEnd(connection);
  }

  #onEnd(connection: Connection): void {
    this.#drop(connection);
    if (connection.channels.size > 0) this.#end([...connection.channels.values()]);
  }

  /** The owners close these subscriptions, and subscribe again a little later, by the new table. */
  #end(subscriptions: readonly Pick<ChannelSubscription, 'events'>[]): void {
    void this.#loadTable();
    for (const { events } of subscriptions) events.onEnd();
  }

  #leave(connection: Connection, subscription: ChannelSubscription): void {
    const { channels, subscriber } = connection;
    const left = subscription.channels.filter((channel) => channels.get(channel) === subscription);
    for (const channel of left) channels.delete(channel);
    if (channels.size === 0) this.#drop(connection);
    // The channel of a slot has another name the next time.
    else for (const channel of left) subscriber.unsubscribe(channel).catch(() => {});
  }

  /** Once for each connection: ioredis adds a listener and a timer whenever it is told to end. */
  #drop(connection: Connection): void {
    if (this.#connections.get(connection.node) !== connection) return;
    this.#connections.delete(connection.node);
    connection.dropped.abort();
    connection.subscriber.close();
  }
}
