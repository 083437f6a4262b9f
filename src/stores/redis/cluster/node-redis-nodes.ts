import type { RedisConnection } from '../connection.ts';
import type { ConnectionErrors } from '../connection-errors.ts';
import { closedReasonOf, type NodeRedisClient, NodeRedisConnection } from '../node-redis-connection.ts';
import { type ClientEvents, ObservedClient } from '../observed-client.ts';
import { OwnClient } from '../own-client.ts';
import { unrefNodeRedis } from '../unref.ts';
import type { ClusterNode, ClusterNodes, Subscriber, SubscriberEvents } from './nodes.ts';

/** What is used of a connection that a node-redis Cluster has to one node. */
export interface NodeRedisNode extends NodeRedisClient {
  duplicate(override?: object): NodeRedisNode;
  sSubscribe(channel: string, listener: (message: string, channel: string) => void): Promise<unknown>;
}

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

export class NodeRedisNodes extends ObservedClient<NodeRedisCluster> implements ClusterNodes {
  readonly keyPrefix = '';
  readonly #made = new Map<string, { node: NodeRedisShardNode; made: ClusterNode }>();
  /**
   * Our connections to nodes that the client does not know, such as a replica that has become a
   * master. The client looks for new nodes only after a redirect of one of its own commands.
   */
  readonly #own = new Map<string, { own: Promise<OwnClient<NodeRedisNode>>; made: ClusterNode }>();

  constructor(cluster: NodeRedisCluster) {
    super(cluster, { ready: 'connect', ended: ['disconnect', 'error'] });
  }

  get isReady(): boolean {
    return this.client.isOpen && this.client.nodeByAddress.size > 0;
  }

  get closedReason(): string | null {
    return closedReasonOf(this.client);
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
    const before = this.#made.get(address);
    if (before?.node === node) return before.made;
    const made = this.#nodeOf(() => this.#clientOf(node));
    this.#made.set(address, { node, made });
    return made;
  }

  /** The client cannot be told to look for new nodes. */
  refresh(): void {}

  override leave(): void {
    super.leave();
    for (const { made } of [...this.#made.values(), ...this.#own.values()]) made.connection.leave();
    for (const { own } of this.#own.values())
      own.then(
        (each) => each.end(),
        () => {},
      );
    this.#own.clear();
  }

  async close(): Promise<void> {
    if (this.client.isOpen) this.client.destroy();
  }

  /**
   * For a node that the client has dropped, or after it was closed, the client would make a
   * connection that is never ended.
   */
  async #clientOf(node: NodeRedisShardNode): Promise<NodeRedisNode> {
    if (this.client.nodeByAddress.get(node.address) !== node) throw new Error('The node is gone');
    return (await this.client.nodeClient(node as never)) as NodeRedisNode;
  }

  #nodeOf(open: () => Promise<NodeRedisNode>): ClusterNode {
    return {
      connection: new LazyConnection(open, this.errors),
      subscriber: (events) => new NodeRedisSubscriber(open, events),
    };
  }

  #ownNode(address: string): ClusterNode | null {
    const before = this.#own.get(address);
    if (before !== undefined) return before.made;
    const [model] = this.client.nodeByAddress.values();
    if (model === undefined || !this.client.isOpen) return null;
    const own = this.#connect(model, address);
    own.catch(() => this.#own.delete(address));
    const made = this.#nodeOf(async () => (await own).client);
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
class LazyConnection implements RedisConnection {
  readonly keyPrefix = '';
  readonly breaks = 0;
  readonly closedReason = null;
  readonly #open: () => Promise<NodeRedisNode>;
  /** Those of the whole Cluster client: before the node is connected there are no others. */
  readonly #errors: ConnectionErrors;
  #client: NodeRedisNode | null = null;
  #connection: RedisConnection | null = null;

  constructor(open: () => Promise<NodeRedisNode>, errors: ConnectionErrors) {
    this.#open = open;
    this.#errors = errors;
  }

  get lastError(): Error | null {
    return this.#connection?.lastError ?? this.#errors.last;
  }

  get isRefused(): boolean {
    return this.#connection?.isRefused ?? this.#errors.isRefused;
  }

  get isReady(): boolean {
    return this.#client?.isReady === true;
  }

  onceReady(callback: () => void): () => void {
    let stop: (() => void) | null = () => {};
    this.#open().then(
      (client) => {
        if (stop === null) return;
        if (client !== this.#client) {
          this.#client = client;
          this.#connection?.leave();
          this.#connection = new NodeRedisConnection(client);
        }
        if (client.isReady) callback();
        else stop = this.#connection?.onceReady(callback) ?? stop;
      },
      () => callback(),
    );
    return () => {
      stop?.();
      stop = null;
    };
  }

  send(name: string, args: string[]): Promise<unknown> {
    if (this.#connection === null) return Promise.reject(new Error('There is no connection to this node'));
    return this.#connection.send(name, args);
  }

  listen(): never {
    throw new Error('In a Cluster, channels are subscribed to over a subscriber of the node');
  }

  leave(): void {
    this.#connection?.leave();
    this.#connection = null;
    this.#client = null;
  }

  async close(): Promise<void> {}
}

class NodeRedisSubscriber implements Subscriber {
  readonly #events: SubscriberEvents;
  readonly #client: Promise<NodeRedisNode>;
  #isOver = false;

  constructor(open: () => Promise<NodeRedisNode>, events: SubscriberEvents) {
    this.#events = events;
    this.#client = this.#connect(open);
    this.#client.catch(() => this.#end());
  }

  async subscribe(channel: string): Promise<void> {
    const client = await this.#client;
    await client.sSubscribe(channel, (message) => this.#events.onMessage(channel, message));
  }

  close(): void {
    this.#isOver = true;
    this.#client.then(destroyQuietly, () => {});
  }

  async #connect(open: () => Promise<NodeRedisNode>): Promise<NodeRedisNode> {
    const node = await open();
    const socket = { ...node.options?.socket, reconnectStrategy: false };
    const client = unrefNodeRedis(node.duplicate({ socket, readonly: false }));
    for (const event of ['error', 'end']) client.on(event, () => this.#end());
    // The slot has moved to another node.
    client.on('server-sunsubscribe', () => this.#end());
    client.on('sharded-channel-moved', () => this.#end());
    await client.connect();
    if (this.#isOver) destroyQuietly(client);
    return client;
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#client.then(destroyQuietly, () => {});
    this.#events.onEnd();
  }
}

function destroyQuietly(client: NodeRedisNode): void {
  if (client.isOpen) client.destroy();
}
