/** What is told of the connection that listens. */
export interface Listening {
  onMessage(message: string): void;
  /** Subscribed: at first and after every reconnect. */
  onUp(): void;
  onDown(): void;
}

/** One client, whichever library it comes from. It reconnects by itself. */
export interface Link {
  /** What the client itself puts before every key. */
  readonly keyPrefix: string;
  /** A command that is sent now goes out now, instead of into the client's own queue. */
  readonly isReady: boolean;
  /** It will never be ready again, or not before the user does something. Says why. */
  readonly whyClosed: string | null;
  /**
   * How often the connection has broken. A client that sends again by itself what it has no answer for may do a command twice, and then only the
   * second answer is seen.
   */
  readonly breaks: number;
  /** Why it is not ready, by what the client has complained of since it last was. It holds no password. */
  readonly lastError: Error | null;
  /** The server has turned it away, for its password or its rights. */
  readonly isRefused: boolean;
  /** Calls back once, when it is ready, closed or turned away. */
  onceReady(callback: () => void): void;
  /** `beside`: in a Cluster, a command without keys goes to the node that has this one. */
  send(name: string, args: string[], beside?: string): Promise<unknown>;
  /**
   * The same, for a command by which the server tells somebody else something: so that it tells them before it answers. A server writes first to whom it has begun to
   * answer last, and a PING in front of the command, in the same packet, makes it begin with us.
   */
  sendYielding?(name: string, args: string[]): Promise<unknown>;
  /** The oldest Redis that can be used through it; 6.2 unless it says so. */
  readonly versionMin?: readonly [number, number];
  /** In a Cluster: every master that can be reached now. */
  servers?(): Promise<readonly Link[]>;
  /** Opens a connection of its own that listens to one channel for as long as it is not closed. */
  listen(channel: string, listening: Listening): { close(): Promise<void> };
  /** What it is connected to has turned out to be a replica: connects again, and with it looks again who the master is. */
  onReplica?(): void;
  /** It is connected, and has not answered for long. Where others may have taken over from that server, connects again. */
  onSilence?(): void;
  /** Takes back what was put on the client. */
  leave(): void;
  /** Closes the client itself; only for a store that opened it. */
  close(): Promise<void>;
}

/** What of a connection's stream is used: all that is written in one go then leaves as one packet. */
export interface Corkable {
  cork?(): void;
  uncork?(): void;
}

/** Nobody waits for the answer, not even for that it is forbidden. */
export function ping(link: Link): void {
  link.send('ping', []).catch(() => {});
}

const RECONNECT_MIN_MS = 50;
const RECONNECT_MAX_MS = 2_000;

/** The listening connection must come back whatever the user's own settings are: without it, waiters only poll. */
export function reconnectDelayMs(attempt: number): number {
  return Math.min(RECONNECT_MIN_MS * 2 ** Math.min(attempt, 10), RECONNECT_MAX_MS);
}
