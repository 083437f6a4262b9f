import type { RedisConnection } from '../connection.ts';

/** Events of a subscriber's connection. */
export interface SubscriberEvents {
  onMessage(channel: string, message: string): void;
  /** The connection is gone for good, and another one has to be made. It may be called again. */
  onEnd(): void;
}

/** A connection to one node that is subscribed to sharded channels. */
export interface Subscriber {
  /** Rejects when the node does not serve the channel's slot, or the connection ends. */
  subscribe(channel: string): Promise<void>;
  close(): void;
}

/** One node of a Cluster. */
export interface ClusterNode {
  /** The connection that the client has to it; `null` before `connect`. */
  readonly connection: RedisConnection | null;
  /** The last error of that connection, or of the client. */
  readonly lastError: Error | null;
  /** Resolves to the connection, which may not be ready yet. The client may have replaced it. */
  connect(): Promise<RedisConnection>;
  subscriber(events: SubscriberEvents): Subscriber;
}

/**
 * The nodes that a Cluster client of either library knows. Addresses are `host:port`, as the
 * Cluster announces them.
 */
export interface ClusterNodes {
  readonly keyPrefix: string;
  readonly isReady: boolean;
  readonly closedReason: string | null;
  /** As for a connection. */
  readonly lastError: Error | null;
  readonly isRefused: boolean;
  /** As for a connection. */
  onceReady(callback: () => void): () => void;
  /** Every node that the client is connected to, or can connect to. */
  known(): readonly ClusterNode[];
  /** `null`: the client does not know this address. */
  at(address: string): ClusterNode | null;
  /** Makes the client look for new nodes. */
  refresh(): void;
  /** Closes all that was opened besides the client. */
  leave(): void;
  close(): Promise<void>;
}
