import type { Clock } from '../../../clock.ts';
import { settlesWithin } from '../../../util/backoff.ts';
import type { RedisConnection } from '../connection.ts';
import { noConnection } from '../failure.ts';

/** Events of a subscriber's connection. */
export interface SubscriberEvents {
  onMessage(channel: string, message: string): void;
  /** The connection is gone for good, and another one has to be made. It may be called again. */
  onEnd(): void;
}

/** A connection to one node that is subscribed to sharded channels. */
export interface Subscriber {
  /** Rejects when the node does not serve the channel's slot, or the connection ends. */
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  /** Settles when the node has answered. */
  checkAlive(): Promise<unknown>;
  close(): void;
}

export interface ClusterNode {
  /** The connection that the client has to it; `null` before `connect`. */
  readonly connection: RedisConnection | null;
  /** The last error of that connection, or of the client. */
  readonly lastError: Error | null;
  /** Resolves to the connection, which may not be ready yet. The client may have replaced it. */
  connect(): Promise<RedisConnection>;
  subscriber(events: SubscriberEvents): Subscriber;
}

type ClientState = 'keyPrefix' | 'isReady' | 'closedReason' | 'lastError' | 'isRefused' | 'onceReady';

/** The nodes that a Cluster client knows, by `host:port` as the Cluster announces them. */
export interface ClusterNodes extends Pick<RedisConnection, ClientState | 'close'> {
  /** Every node that the client is connected to, or can connect to. */
  known(): readonly ClusterNode[];
  /** `null`: the client does not know this address. */
  at(address: string): ClusterNode | null;
  /** Makes the client look for new nodes. */
  refresh(): void;
  /** Closes all that was opened besides the client. */
  leave(): void;
}

const CONNECT_MS = 500;

/**
 * Waits until a node is connected. All commands that wait for a node share one attempt: node-redis
 * may never settle it, and then keeps whatever waits for it.
 */
export class NodeReadiness {
  readonly #clock: Clock;
  readonly #waiting = new Map<ClusterNode, Promise<RedisConnection>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Rejects if connecting takes too long, or is refused. */
  wait(node: ClusterNode): Promise<RedisConnection> {
    if (node.connection?.isReady === true) return Promise.resolve(node.connection);
    const waiting = this.#waiting.get(node) ?? this.#connect(node).finally(() => this.#waiting.delete(node));
    this.#waiting.set(node, waiting);
    return waiting;
  }

  async #connect(node: ClusterNode): Promise<RedisConnection> {
    let isOver = false;
    let stopListening = (): void => {};
    const connected = node.connect().then(
      (connection) =>
        new Promise<void>((resolve) => {
          if (isOver || connection.isReady) resolve();
          else stopListening = connection.onceReady(resolve);
        }),
    );
    // If the owner closes the client meanwhile, only this keeps the process alive for the caller.
    await settlesWithin(this.#clock, connected, CONNECT_MS, { keepAlive: true });
    isOver = true;
    stopListening();
    if (node.connection?.isReady !== true) throw noConnection(node);
    return node.connection;
  }
}
