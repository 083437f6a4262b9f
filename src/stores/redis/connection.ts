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
  /**
   * Why the client will not be ready again unless its owner does something; `null` while it may.
   */
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
  /**
   * Calls back once, when the client is ready, closed or refused. The result cancels that and
   * removes every listener.
   */
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
  /**
   * Opens another connection, which is subscribed to these channels until it ends or is closed. In a
   * Cluster they belong to one slot.
   */
  listen(channels: string[], listening: ChannelEvents): SubscribedConnection;
  /**
   * The server has turned out to be a replica. Connects again, so that the client looks for the
   * master.
   */
  onReplica?(): void;
  /** Absent or `null`: a silent connection is left to its owner. */
  readonly silence?: Silence | null;
  /**
   * Asks each Sentinel for its view of the master; `null` for a client that follows none. Rejects
   * where the client does not tell its Sentinels.
   */
  askSentinels?(limitMs: number): Promise<readonly SentinelReading[]> | null;
  /** Removes our listeners from the client. */
  leave(): void;
  /** Closes the client. Only for a store that has opened it. */
  close(): Promise<void>;
}

/** What is done about a connection on which nothing is answered any more. */
export interface Silence {
  /** How long a PING may have no answer. */
  readonly afterMs: number;
  reconnect(): void;
}

/** A client that we have opened gets another connection after this. */
export const OWN_SILENCE_MS = 3_000;

/** What is used of a socket: what is written between the two calls leaves as one packet. */
export interface Corkable {
  cork?(): void;
  uncork?(): void;
}

/** Sends a PING whose reply is ignored, also if a PING is not allowed. */
export function ping(connection: RedisConnection): void {
  connection.send('ping', []).catch(() => {});
}

const RECONNECT_MIN_MS = 50;
const RECONNECT_MAX_MS = 2_000;

/** The delay before a connection of ours is made again. */
export function reconnectDelayMs(attempt: number): number {
  return Math.min(RECONNECT_MIN_MS * 2 ** Math.min(attempt, 10), RECONNECT_MAX_MS);
}
