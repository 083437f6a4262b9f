import type { ConnectionEvents, SubscribedConnection } from '../shared/subscription.ts';
import type { SentinelReading } from './sentinel-checks.ts';

/** The events of a connection that is subscribed to channels. */
export type ChannelEvents = ConnectionEvents<string>;

/** A client of either library. It reconnects by itself. */
export interface RedisConnection {
  /** The prefix that the client puts before every key. */
  readonly keyPrefix: string;
  /** A command is written to the socket at once, and does not wait in the queue of the client. */
  readonly isReady: boolean;
  /** Why the client will not be ready again unless its owner acts; `null` while it may. */
  readonly closedReason: string | null;
  /**
   * How often the connection has broken. The next one may lead to another server. Some clients send
   * commands without a reply again: such a command may take effect twice, and only its second reply
   * is seen. 0 where that is not known.
   */
  readonly breaks: number;
  /** The last error of the client since it was connected. It holds no password. */
  readonly lastError: Error | null;
  /** The server has refused the client's login or rights. */
  readonly isRefused: boolean;
  /** Calls back once, when the client is ready, closed or refused. The result cancels that. */
  onceReady(callback: () => void): () => void;
  /** `beside`: in a Cluster, a command without keys goes to the node of this key. */
  send(name: string, args: string[], beside?: string): Promise<unknown>;
  /**
   * The same, for a command that sends a message to another client: the server writes that message
   * before the reply. A server writes first to the client that it has started to answer last. A
   * PING before the command, in the same packet, makes the server start with us.
   */
  sendYielding?(name: string, args: string[]): Promise<unknown>;
  /** The oldest Redis version that works over this connection. Default 6.2. */
  readonly versionMin?: readonly [number, number];
  /** In a Cluster: the masters that can be reached now. */
  servers?(): Promise<readonly RedisConnection[]>;
  /** Opens another connection for these channels, which belong to one slot in a Cluster. */
  listen(channels: string[], listening: ChannelEvents): SubscribedConnection;
  /** The server is a replica. Connects again, so that the client looks for the master. */
  onReplica?(): void;
  /** What to do when a PING has no answer in `afterMs`. Absent or `null`: leave it to the owner. */
  readonly silence?: { readonly afterMs: number; reconnect(): void } | null;
  /** The view of each Sentinel; `null`: none is followed. Rejects if the client hides them. */
  askSentinels?(limitMs: number): Promise<readonly SentinelReading[]> | null;
  /** Removes our listeners from the client. */
  leave(): void;
  /** Closes the client. Only for a store that has opened it. */
  close(): Promise<void>;
}

/** A client that we have opened gets another connection after this. */
export const OWN_SILENCE_MS = 3_000;

/** Sends a PING whose reply is ignored, also if a PING is not allowed. */
export function ping(connection: RedisConnection): void {
  connection.send('ping', []).catch(() => {});
}
