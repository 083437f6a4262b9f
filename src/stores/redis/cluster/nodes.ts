import type { Link } from '../link.ts';

/** What is told of the connection of a subscriber. */
export interface SubscriberEvents {
  onMessage(channel: string, message: string): void;
  /** It is gone for good; another one has to be made. */
  onEnd(): void;
}

/** A connection to one node that listens to sharded channels. */
export interface Subscriber {
  /** Rejects when the node does not serve the channel's slot, or the connection ends. */
  subscribe(channel: string): Promise<void>;
  close(): void;
}

/** One node of a Cluster, by the connection that the user's client has to it. */
export interface ClusterNode {
  readonly link: Link;
  subscriber(events: SubscriberEvents): Subscriber;
}

/** The nodes that a Cluster client knows, whichever library it comes from. Addresses are `host:port`, as the Cluster announces them. */
export interface ClusterNodes {
  readonly keyPrefix: string;
  readonly isReady: boolean;
  readonly whyClosed: string | null;
  /** As a link has it. */
  readonly lastError: Error | null;
  readonly isRefused: boolean;
  onceReady(callback: () => void): void;
  /** Every node that it has a connection to, or could have at once. */
  known(): readonly ClusterNode[];
  /** `null`: the client does not know this address. */
  at(address: string): ClusterNode | null;
  /** Lets the client itself look again which nodes there are. */
  refresh(): void;
  /** Closes what was opened besides the client. */
  leave(): void;
  close(): Promise<void>;
}
