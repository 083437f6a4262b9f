import { UnsupportedError } from '../../../errors.ts';
import { copyOf, endHelpers, type IoredisClient } from '../ioredis-client.ts';
import { type Corkable, IOREDIS_CLOSED, IoredisConnection } from '../ioredis-connection.ts';
import { type ClientEvents, ObservedClient } from '../observed-client.ts';
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
export interface IoredisCluster extends ClientEvents {
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
}

const ENDED = new Set(['end', 'close']);

type Mapped = { readonly host: string; readonly port: number } | null | undefined;

export class IoredisNodes extends ObservedClient<IoredisCluster> implements ClusterNodes {
  readonly #made = new WeakMap<IoredisNode, NodeConnection>();
  /** By address, since every command looks its node up. */
  readonly #byAddress = new Map<string, NodeConnection>();

  constructor(cluster: IoredisCluster) {
    // The connections would put it before our keys, after the Cluster's own prefix.
    if ((cluster.options.redisOptions?.keyPrefix ?? '') !== '') {
      throw new UnsupportedError('Set keyPrefix on the Cluster itself, not in its redisOptions');
    }
    super(cluster);
  }

  get keyPrefix(): string {
    return this.client.options.keyPrefix ?? '';
  }

  get isReady(): boolean {
    return this.client.status === 'ready';
  }

  /**
   * When connections of a Cluster client end after the client has, its status becomes `close` again
   * and stays so. A client that reconnects has the status `close` for one tick, and is taken for
   * closed in that tick.
   */
  get closedReason(): string | null {
    return ENDED.has(this.client.status) ? IOREDIS_CLOSED : null;
  }

  override onceReady(callback: () => void): () => void {
    const stop = super.onceReady(callback);
    if (this.client.status === 'wait') this.client.connect().catch(this.recordError);
    return stop;
  }

  known(): readonly NodeConnection[] {
    return this.client.nodes('all').map((client) => {
      const node = this.#made.get(client) ?? new NodeConnection(client).use();
      this.#made.set(client, node);
      return node;
    });
  }

  at(address: string): ClusterNode | null {
    const before = this.#byAddress.get(address);
    // A connection that has ended is never used again: the client makes another.
    if (before !== undefined && before.closedReason === null) return before;
    const wanted = this.#mapped(address);
    const found = this.known().find((node) => node.address === wanted);
    if (found !== undefined) this.#byAddress.set(address, found);
    return found ?? null;
  }

  refresh(): void {
    if (this.isReady) this.client.refreshSlotsCache(() => {});
  }

  protected override setListeners(verb: 'on' | 'off'): void {
    super.setListeners(verb);
    for (const client of this.client.nodes('all')) {
      const node = this.#made.get(client);
      if (verb === 'on') node?.use();
      else node?.leave();
    }
  }

  async close(): Promise<void> {
    const { status } = this.client;
    if (status === 'end') return;
    const ended = new Promise<void>((resolve) => {
      this.client.once('end', () => resolve());
    });
    this.client.disconnect();
    endHelpers(this.client);
    // Between two attempts to connect, the client does not emit `end`.
    if (status === 'connect' || status === 'ready') await ended;
  }

  /** The address as the client reaches it, where that differs from what the Cluster announces. */
  #mapped(address: string): string {
    const { natMap } = this.client.options;
    if (natMap === undefined || natMap === null) return address;
    const found: Mapped =
      typeof natMap === 'function' ? natMap(address) : (natMap as Record<string, Mapped>)[address];
    return found === null || found === undefined ? address : `${found.host}:${found.port}`;
  }
}

/** The server works on a packet of this many calls while the next is prepared (`bench redis`). */
const PACKET_MAX = 32;

/**
 * In a Cluster each slot has calls of its own, and ioredis writes each call to the socket by
 * itself. The calls of one tick to one node leave as one packet: 100 tasks make 1.4 times as many
 * pairs a second (`npm run bench -- redis packets`).
 */
export class NodeConnection extends IoredisConnection<IoredisNode> implements ClusterNode {
  readonly connection = this;
  #corked: Corkable | null = null;
  /** How many calls this tick has sent. */
  #sent = 0;

  get address(): string {
    const { host, port } = this.client.options;
    return `${host}:${port}`;
  }

  async connect(): Promise<this> {
    return this;
  }

  subscriber(events: SubscriberEvents): Subscriber {
    const subscriber = copyOf(this.client, { autoResubscribe: false, readOnly: false });
    subscriber.on('smessage', (channel: string, message: string) => events.onMessage(channel, message));
    subscriber.once('end', () => events.onEnd());
    // A slot has moved to another node. All channels are subscribed to again.
    subscriber.on('moved', () => subscriber.disconnect());
    subscriber.connect().catch(() => {});
    return {
      subscribe: (channel) => subscriber.ssubscribe(channel),
      unsubscribe: (channel) => subscriber.call('sunsubscribe', [channel]),
      checkAlive: () => subscriber.call('ping', []),
      close() {
        // A client that has ended already would wait for its end once more.
        if (subscriber.status !== 'end') subscriber.disconnect();
      },
    };
  }

  override send(name: string, args: string[]): Promise<unknown> {
    if (this.#sent === 0) {
      const { stream = null } = this.client as { readonly stream?: Corkable | null };
      this.#corked = stream;
      stream?.cork?.();
      process.nextTick(() => {
        this.#sent = 0;
        stream?.uncork?.();
      });
    } else if (this.#sent % PACKET_MAX === 0) {
      this.#corked?.uncork?.();
      this.#corked?.cork?.();
    }
    this.#sent += 1;
    return this.client.call(name, args);
  }
}
