import { UnsupportedError } from '../../../errors.ts';
import { Complaints } from '../complaints.ts';
import { type IoredisClient, ioredisLink } from '../ioredis-link.ts';
import type { Corkable, Link } from '../link.ts';
import type { ClusterNode, ClusterNodes, Subscriber, SubscriberEvents } from './nodes.ts';

/** What is used of a connection that an ioredis Cluster has to one node. */
export interface IoredisNode extends IoredisClient {
  readonly options: IoredisClient['options'] & {
    readonly host?: string | undefined;
    readonly port?: number | undefined;
  };
  duplicate(override?: object): IoredisNode;
  ssubscribe(...channels: string[]): Promise<unknown>;
}

/** What is used of an ioredis Cluster. */
export interface IoredisCluster {
  readonly isCluster: boolean;
  readonly status: string;
  readonly options: {
    readonly keyPrefix?: string | undefined;
    readonly natMap?: object | undefined;
    readonly redisOptions?: { readonly keyPrefix?: string | undefined } | undefined;
  };
  nodes(role?: 'all'): IoredisNode[];
  refreshSlotsCache(callback?: (error?: Error | null) => void): void;
  connect(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
  on(event: string, listener: (...args: string[]) => void): unknown;
  once(event: string, listener: (...args: string[]) => void): unknown;
  off(event: string, listener: (...args: string[]) => void): unknown;
}

const ENDED = new Set(['end', 'close']);

type Mapped = { readonly host: string; readonly port: number } | null | undefined;

export class IoredisNodes implements ClusterNodes {
  readonly #cluster: IoredisCluster;
  readonly #complaints: Complaints;
  readonly #made = new WeakMap<IoredisNode, ClusterNode>();
  /** Looked up for every command. */
  readonly #at = new Map<string, IoredisNode>();

  constructor(cluster: IoredisCluster) {
    // Its connections would then put it before our keys once more.
    if ((cluster.options.redisOptions?.keyPrefix ?? '') !== '') {
      throw new UnsupportedError('Set keyPrefix on the Cluster itself, not in its redisOptions');
    }
    this.#cluster = cluster;
    this.#complaints = Complaints.of(cluster, 'ready');
  }

  get lastError(): Error | null {
    return this.#complaints.last;
  }

  get isRefused(): boolean {
    return this.#complaints.isRefused;
  }

  get keyPrefix(): string {
    return this.#cluster.options.keyPrefix ?? '';
  }

  get isReady(): boolean {
    return this.#cluster.status === 'ready';
  }

  /** A Cluster client says `close` once more for each connection that ends after it has ended itself, and stays at that. Before it connects again it says so for one tick. */
  get whyClosed(): string | null {
    return ENDED.has(this.#cluster.status) ? 'the client has been closed or has given up reconnecting' : null;
  }

  onceReady(callback: () => void): void {
    const done = (): void => {
      this.#cluster.off('ready', done);
      this.#cluster.off('end', done);
      stopHearing();
      callback();
    };
    const stopHearing = this.#complaints.onRefused(done);
    this.#cluster.once('ready', done);
    this.#cluster.once('end', done);
    if (this.#cluster.status === 'wait') this.#cluster.connect().catch(this.#complaints.hear);
  }

  known(): readonly ClusterNode[] {
    return this.#cluster.nodes('all').map((node) => this.#nodeOf(node));
  }

  at(address: string): ClusterNode | null {
    const before = this.#at.get(address);
    // A connection that has ended is never used again: the client makes another.
    if (before !== undefined && before.status !== 'end') return this.#nodeOf(before);
    const wanted = this.#mapped(address);
    const found = this.#cluster
      .nodes('all')
      .find(({ options }) => `${options.host}:${options.port}` === wanted);
    if (found === undefined) {
      this.#at.delete(address);
      return null;
    }
    this.#at.set(address, found);
    return this.#nodeOf(found);
  }

  refresh(): void {
    if (this.isReady) this.#cluster.refreshSlotsCache(() => {});
  }

  leave(): void {
    this.#complaints.leave();
    for (const node of this.#cluster.nodes('all')) this.#made.get(node)?.link.leave();
  }

  async close(): Promise<void> {
    const { status } = this.#cluster;
    if (status === 'end') return;
    const ended = new Promise<void>((resolve) => {
      this.#cluster.once('end', () => resolve());
    });
    this.#cluster.disconnect();
    // Between two attempts to connect there is nothing that could end.
    if (status === 'connect' || status === 'ready') await ended;
  }

  /** The address as the client reaches it, where that differs from what the Cluster announces. */
  #mapped(address: string): string {
    const { natMap } = this.#cluster.options;
    if (natMap === undefined || natMap === null) return address;
    const found: Mapped =
      typeof natMap === 'function' ? natMap(address) : (natMap as Record<string, Mapped>)[address];
    return found === null || found === undefined ? address : `${found.host}:${found.port}`;
  }

  #nodeOf(node: IoredisNode): ClusterNode {
    let made = this.#made.get(node);
    if (made === undefined) {
      made = {
        link: gathering(node, ioredisLink(node)),
        subscriber: (events) => new IoredisSubscriber(node, events),
      };
      this.#made.set(node, made);
    }
    return made;
  }
}

/** No more calls than this in one packet: the node should work on some while we write the others. */
const PACKET_MAX = 32;

/**
 * In a Cluster each slot has calls of its own, and this library writes each by itself. What is sent to a node while the answers of one packet are worked off is gathered and
 * travels as one, before the answers of another node are looked at.
 */
function gathering(node: IoredisNode, link: Link): Link {
  let sent = 0;
  let gathered: Corkable | null = null;
  const end = (): void => {
    gathered?.uncork?.();
    gathered = null;
    sent = 0;
  };
  const { send } = link;
  link.send = (name, args) => {
    if (sent === 0) {
      gathered = (node as { readonly stream?: Corkable | null }).stream ?? null;
      gathered?.cork?.();
      process.nextTick(end);
    } else if (sent % PACKET_MAX === 0) {
      gathered?.uncork?.();
      gathered?.cork?.();
    }
    sent += 1;
    return send.call(link, name, args);
  };
  return link;
}

class IoredisSubscriber implements Subscriber {
  readonly #client: IoredisNode;

  constructor(node: IoredisNode, events: SubscriberEvents) {
    this.#client = node.duplicate({
      lazyConnect: true,
      keyPrefix: '',
      autoResubscribe: false,
      enableOfflineQueue: true,
      // Another node may serve its slots when it is gone, so it is made anew.
      retryStrategy: null,
      readOnly: false,
      commandTimeout: undefined,
    });
    this.#client.on('error', () => {});
    this.#client.on('smessage', (channel: string, message: string) => events.onMessage(channel, message));
    this.#client.once('end', () => events.onEnd());
    // A slot has left this node, and with it its channels; the others find their way back as quickly.
    this.#client.on('moved', () => this.#client.disconnect());
    this.#client.connect().catch(() => {});
  }

  async subscribe(channel: string): Promise<void> {
    await this.#client.ssubscribe(channel);
  }

  close(): void {
    // Where there is nothing left to end, the client would wait for that end, and keep the process alive meanwhile.
    if (this.#client.status !== 'end') this.#client.disconnect();
  }
}
