import { errorMonitor } from 'node:events';
import { systemClock } from '../../../clock.ts';
import { pause } from '../../../util/backoff.ts';
import type { RedisConnection } from '../connection.ts';
import { closedReasonOf, type NodeRedisClient, NodeRedisConnection } from '../node-redis-connection.ts';
import { type ClientEvents, ObservedClient } from '../observed-client.ts';
import { OwnClient, reconnectDelayMs } from '../own-client.ts';
import type { ClusterNode, ClusterNodes, Subscriber, SubscriberEvents } from './nodes.ts';

/** What is used of a connection that a node-redis Cluster has to one node. */
export interface NodeRedisNode extends NodeRedisClient {
  duplicate(override?: object): NodeRedisNode;
  sSubscribe(channel: string, listener: ChannelListener): Promise<unknown>;
  sUnsubscribe(channel: string, listener: ChannelListener): Promise<unknown>;
}

type ChannelListener = (message: string, channel: string) => void;

/** A node as a node-redis Cluster knows it. */
export interface NodeRedisShardNode {
  readonly address: string;
}

/** What is used of a node-redis Cluster. */
export interface NodeRedisCluster extends ClientEvents {
  readonly isOpen: boolean;
  readonly nodeByAddress: ReadonlyMap<string, NodeRedisShardNode>;
  // A method, so that a client of any configuration fits.
  nodeClient(node: never): Promise<unknown>;
  destroy(): void;
}

/** The clients that we have opened and that have not reached their Cluster yet. */
const CONNECTING = new WeakSet<object>();

/** Connects a client that we have opened. A client is closed again when no node answers. */
export async function keepConnecting(
  cluster: NodeRedisCluster & { connect(): Promise<unknown> },
): Promise<void> {
  CONNECTING.add(cluster);
  for (let attempt = 0; CONNECTING.has(cluster); attempt += 1) {
    const isConnected = await cluster.connect().then(
      () => true,
      () => false,
    );
    // Closed meanwhile. The client may have connected to nodes since then.
    if (!CONNECTING.has(cluster)) cluster.destroy();
    else if (isConnected) CONNECTING.delete(cluster);
    else await pause(systemClock, reconnectDelayMs(attempt));
  }
}

export class NodeRedisNodes extends ObservedClient<NodeRedisCluster> implements ClusterNodes {
  readonly keyPrefix = '';
  readonly #made = new WeakMap<NodeRedisShardNode, LazyNode>();
  /**
   * Our connections to nodes that the client does not know, such as a replica that has become a
   * master. The client looks for new nodes only after a redirect of one of its own commands.
   */
  readonly #own = new Map<string, { own: Promise<OwnClient<NodeRedisNode>>; made: LazyNode }>();

  constructor(cluster: NodeRedisCluster) {
    super(cluster, { ready: 'connect', ended: ['disconnect', errorMonitor] });
  }

  get isReady(): boolean {
    return this.client.isOpen && this.client.nodeByAddress.size > 0;
  }

  get closedReason(): string | null {
    return CONNECTING.has(this.client) ? null : closedReasonOf(this.client);
  }

  override onceReady(callback: () => void): () => void {
    // A client that gives up emits an error first, and is closed after that.
    return super.onceReady(() => void setImmediate(callback));
  }

  known(): readonly ClusterNode[] {
    return [...this.client.nodeByAddress.keys()].flatMap((address) => this.at(address) ?? []);
  }

  at(address: string): ClusterNode | null {
    const node = this.client.nodeByAddress.get(address);
    if (node === undefined) return this.#ownNode(address);
    const made = this.#made.get(node) ?? new LazyNode(() => this.#clientOf(node), this);
    this.#made.set(node, made);
    return made;
  }

  /** The client cannot be told to look for new nodes. */
  refresh(): void {}

  protected override setListeners(verb: 'on' | 'off'): void {
    super.setListeners(verb);
    for (const node of this.client.nodeByAddress.values()) {
      const connection = this.#made.get(node)?.connection;
      if (verb === 'on') connection?.use();
      else connection?.leave();
    }
    if (verb === 'on') return;
    for (const { own, made } of this.#own.values()) {
      made.connection?.leave();
      own.then((each) => each.end()).catch(() => {});
    }
    this.#own.clear();
  }

  async close(): Promise<void> {
    CONNECTING.delete(this.client);
    if (this.client.isOpen) this.client.destroy();
  }

  /** For a node that it has dropped, the client would make a connection that is never ended. */
  async #clientOf(node: NodeRedisShardNode): Promise<NodeRedisNode> {
    if (this.client.nodeByAddress.get(node.address) !== node) throw new Error('The node is gone');
    return (await this.client.nodeClient(node as never)) as NodeRedisNode;
  }

  #ownNode(address: string): ClusterNode | null {
    const before = this.#own.get(address);
    if (before !== undefined) return before.made;
    const known = [...this.client.nodeByAddress.values()];
    // The client would wait without end for a node that has never answered.
    const model = known.find((node) => this.#made.get(node)?.connection != null) ?? known[0];
    if (model === undefined || !this.client.isOpen) return null;
    const own = this.#connect(model, address);
    own.catch(() => this.#own.delete(address));
    const made = new LazyNode(async () => (await own).client, this);
    this.#own.set(address, { own, made });
    return made;
  }

  /** With the options that the client uses for its other nodes, such as user, password and TLS. */
  async #connect(model: NodeRedisShardNode, address: string): Promise<OwnClient<NodeRedisNode>> {
    const known = await this.#clientOf(model);
    const at = address.lastIndexOf(':');
    const socket = { host: address.slice(0, at), port: Number(address.slice(at + 1)) };
    const own = OwnClient.like(known, { url: undefined, socket, readonly: false });
    own.connect().catch(() => {});
    return own;
  }
}

/** The client connects to a node when the node is first used, and may replace that connection. */
class LazyNode implements ClusterNode {
  readonly #open: () => Promise<NodeRedisNode>;
  readonly #cluster: Pick<RedisConnection, 'lastError'>;
  #client: NodeRedisNode | null = null;
  connection: NodeRedisConnection | null = null;

  constructor(open: () => Promise<NodeRedisNode>, cluster: Pick<RedisConnection, 'lastError'>) {
    this.#open = open;
    this.#cluster = cluster;
  }

  get lastError(): Error | null {
    return this.connection?.lastError ?? this.#cluster.lastError;
  }

  async connect(): Promise<RedisConnection> {
    const client = await this.#open();
    if (this.connection !== null && client === this.#client) return this.connection;
    this.#client = client;
    this.connection?.leave();
    this.connection = new NodeRedisConnection(client).use();
    return this.connection;
  }

  subscriber(events: SubscriberEvents): Subscriber {
    const own = this.#openSubscriber(events);
    const connected = own.then(async (opened) => {
      await opened.connect();
      return opened.client;
    });
    connected.catch(() => events.onEnd());
    const listener: ChannelListener = (message, channel) => events.onMessage(channel, message);
    return {
      subscribe: async (channel) => (await connected).sSubscribe(channel, listener),
      // Without the listener, the client would mix it up with a later subscription to the channel.
      unsubscribe: async (channel) => (await connected).sUnsubscribe(channel, listener),
      checkAlive: async () => (await connected).sendCommand(['PING']),
      // Also while it connects: a silent node never ends the attempt.
      close: () => void own.then((opened) => opened.end()).catch(() => {}),
    };
  }

  async #openSubscriber(events: SubscriberEvents): Promise<OwnClient<NodeRedisNode>> {
    const own = OwnClient.like(await this.#open(), { socket: { reconnectStrategy: false }, readonly: false });
    // The last two: the slot has moved to another node.
    for (const event of ['error', 'end', 'server-sunsubscribe', 'sharded-channel-moved'])
      own.client.on(event, () => events.onEnd());
    return own;
  }
}
