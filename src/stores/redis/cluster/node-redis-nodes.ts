import { Complaints } from '../complaints.ts';
import type { Link } from '../link.ts';
import { type NodeRedisClient, nodeRedisLink } from '../node-redis-link.ts';
import { OwnClient } from '../own-client.ts';
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
export interface NodeRedisCluster {
  readonly isOpen: boolean;
  readonly nodeByAddress: ReadonlyMap<string, NodeRedisShardNode>;
  // A method, so that a client of any configuration fits.
  nodeClient(node: never): Promise<unknown>;
  destroy(): void;
  on(event: string, listener: (...args: string[]) => void): unknown;
  once(event: string, listener: (...args: string[]) => void): unknown;
  off(event: string, listener: (...args: string[]) => void): unknown;
}

export class NodeRedisNodes implements ClusterNodes {
  readonly keyPrefix = '';
  readonly #cluster: NodeRedisCluster;
  readonly #complaints: Complaints;
  readonly #made = new Map<string, { node: NodeRedisShardNode; made: ClusterNode }>();
  /** To nodes that the client does not know, such as a replica that has become a master: it looks again only when it is told to by a node that it does know. */
  readonly #own = new Map<string, { own: Promise<OwnClient<NodeRedisNode>>; made: ClusterNode }>();

  constructor(cluster: NodeRedisCluster) {
    this.#cluster = cluster;
    this.#complaints = Complaints.of(cluster, 'connect');
  }

  get lastError(): Error | null {
    return this.#complaints.last;
  }

  get isRefused(): boolean {
    return this.#complaints.isRefused;
  }

  get isReady(): boolean {
    return this.#cluster.isOpen && this.#cluster.nodeByAddress.size > 0;
  }

  get whyClosed(): string | null {
    return this.#cluster.isOpen
      ? null
      : 'the client is not open: it has been closed, or its connect() was not called';
  }

  onceReady(callback: () => void): void {
    const done = (): void => {
      for (const event of ['connect', 'disconnect', 'error']) this.#cluster.off(event, done);
      stopHearing();
      // An error may be the last word of a client that gives up, and only after it is it closed.
      setImmediate(callback);
    };
    const stopHearing = this.#complaints.onRefused(done);
    for (const event of ['connect', 'disconnect', 'error']) this.#cluster.once(event, done);
  }

  known(): readonly ClusterNode[] {
    return [...this.#cluster.nodeByAddress.keys()].flatMap((address) => this.at(address) ?? []);
  }

  at(address: string): ClusterNode | null {
    const node = this.#cluster.nodeByAddress.get(address);
    if (node === undefined) return this.#ownNode(address);
    const before = this.#made.get(address);
    if (before?.node === node) return before.made;
    const made = this.#nodeOf(() => this.#clientOf(node));
    this.#made.set(address, { node, made });
    return made;
  }

  /** A command that is sent to the wrong node makes this client look; there is no other way to tell it to. */
  refresh(): void {}

  leave(): void {
    this.#complaints.leave();
    for (const { made } of [...this.#made.values(), ...this.#own.values()]) made.link.leave();
    for (const { own } of this.#own.values())
      own.then(
        (each) => each.end(),
        () => {},
      );
    this.#own.clear();
  }

  async close(): Promise<void> {
    if (this.#cluster.isOpen) this.#cluster.destroy();
  }

  /** Of a node that it does not know any more, or once it is closed, the client would make a connection that nobody ends. */
  async #clientOf(node: NodeRedisShardNode): Promise<NodeRedisNode> {
    if (this.#cluster.nodeByAddress.get(node.address) !== node) throw new Error('The node is gone');
    return (await this.#cluster.nodeClient(node as never)) as NodeRedisNode;
  }

  #nodeOf(open: () => Promise<NodeRedisNode>): ClusterNode {
    return {
      link: new LazyLink(open, this.#complaints),
      subscriber: (events) => new NodeRedisSubscriber(open, events),
    };
  }

  #ownNode(address: string): ClusterNode | null {
    const before = this.#own.get(address);
    if (before !== undefined) return before.made;
    const [model] = this.#cluster.nodeByAddress.values();
    if (model === undefined || !this.#cluster.isOpen) return null;
    const own = this.#connect(model, address);
    own.catch(() => this.#own.delete(address));
    const made = this.#nodeOf(async () => (await own).client);
    this.#own.set(address, { own, made });
    return made;
  }

  /** With everything as the client has it for its other nodes: user, password, TLS. */
  async #connect(model: NodeRedisShardNode, address: string): Promise<OwnClient<NodeRedisNode>> {
    const known = await this.#clientOf(model);
    const at = address.lastIndexOf(':');
    const place = { host: address.slice(0, at), port: Number(address.slice(at + 1)) };
    const own = OwnClient.like(known, { url: undefined, socket: place, readonly: false });
    own.connect().catch(() => {});
    return own;
  }
}

/** This library connects to a node when it is first asked for it, and may replace its client. */
class LazyLink implements Link {
  readonly keyPrefix = '';
  readonly breaks = 0;
  readonly whyClosed = null;
  readonly #open: () => Promise<NodeRedisNode>;
  /** Of the whole Cluster: before it is connected there is no client to hear. */
  readonly #complaints: Complaints;
  #client: NodeRedisNode | null = null;
  #link: Link | null = null;

  constructor(open: () => Promise<NodeRedisNode>, complaints: Complaints) {
    this.#open = open;
    this.#complaints = complaints;
  }

  get lastError(): Error | null {
    return this.#link?.lastError ?? this.#complaints.last;
  }

  get isRefused(): boolean {
    return this.#link?.isRefused ?? this.#complaints.isRefused;
  }

  get isReady(): boolean {
    return this.#client?.isReady === true;
  }

  onceReady(callback: () => void): void {
    this.#open().then(
      (client) => {
        if (client !== this.#client) {
          this.#client = client;
          this.#link?.leave();
          this.#link = nodeRedisLink(client);
        }
        if (client.isReady) callback();
        else this.#link?.onceReady(callback);
      },
      () => callback(),
    );
  }

  send(name: string, args: string[]): Promise<unknown> {
    if (this.#link === null) return Promise.reject(new Error('There is no connection to this node'));
    return this.#link.send(name, args);
  }

  listen(): never {
    throw new Error('A node of a Cluster is listened to by its subscriber');
  }

  leave(): void {
    this.#link?.leave();
    this.#link = null;
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
    const client = node.duplicate({ socket, readonly: false });
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
