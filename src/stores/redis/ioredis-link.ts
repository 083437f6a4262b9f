import { Complaints } from './complaints.ts';
import { type Send, senderOf } from './ioredis-command.ts';
import { type Corkable, type Link, type Listening, ping, reconnectDelayMs } from './link.ts';

/** What is used of an ioredis client. */
export interface IoredisClient {
  readonly status: string;
  readonly options: {
    readonly keyPrefix?: string | undefined;
    readonly sentinels?: readonly object[] | null | undefined;
  };
  call(command: string, args: string[]): Promise<unknown>;
  connect(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
  duplicate(override?: object): IoredisClient;
  subscribe(...channels: string[]): Promise<unknown>;
  on(event: string, listener: (...args: string[]) => void): unknown;
  once(event: string, listener: (...args: string[]) => void): unknown;
  off(event: string, listener: (...args: string[]) => void): unknown;
}

export function ioredisLink(client: IoredisClient): Link {
  return new IoredisLink(client);
}

class IoredisLink implements Link {
  readonly #client: IoredisClient;
  readonly #complaints: Complaints;
  readonly #send: Send;
  #breaks = 0;
  #isCounting = false;
  readonly #onBreak = (): void => {
    this.#breaks += 1;
  };

  constructor(client: IoredisClient) {
    this.#client = client;
    this.#complaints = Complaints.of(client, 'ready');
    this.#send = senderOf(client);
  }

  get breaks(): number {
    if (!this.#isCounting) this.#client.on('close', this.#onBreak);
    this.#isCounting = true;
    return this.#breaks;
  }

  get lastError(): Error | null {
    if (this.#complaints.last !== null) return this.#complaints.last;
    // An owner who does not listen to its errors is not told of any, and then nobody is.
    const { connector } = this.#client as { readonly connector?: { readonly firstError?: unknown } };
    return connector?.firstError instanceof Error ? connector.firstError : null;
  }

  get isRefused(): boolean {
    return this.#complaints.isRefused;
  }

  leave(): void {
    this.#complaints.leave();
    if (this.#isCounting) this.#client.off('close', this.#onBreak);
    this.#isCounting = false;
  }

  get keyPrefix(): string {
    return this.#client.options.keyPrefix ?? '';
  }

  get isReady(): boolean {
    return this.#client.status === 'ready';
  }

  get whyClosed(): string | null {
    return this.#client.status === 'end' ? 'the client has been closed or has given up reconnecting' : null;
  }

  onceReady(callback: () => void): void {
    const done = (): void => {
      this.#client.off('ready', done);
      this.#client.off('end', done);
      stopHearing();
      callback();
    };
    const stopHearing = this.#complaints.onRefused(done);
    this.#client.once('ready', done);
    this.#client.once('end', done);
    // A client made with lazyConnect waits for its first command, and ours would wait for the client.
    if (this.#client.status === 'wait') this.#client.connect().catch(this.#complaints.hear);
  }

  send(name: string, args: string[]): Promise<unknown> {
    return this.#send(name, args);
  }

  sendYielding(name: string, args: string[]): Promise<unknown> {
    const { stream } = this.#client as { readonly stream?: Corkable | null };
    // Alone, the PING would be answered before the command has arrived.
    stream?.cork?.();
    try {
      ping(this);
      return this.#send(name, args);
    } finally {
      stream?.uncork?.();
    }
  }

  listen(channel: string, listening: Listening): { close(): Promise<void> } {
    const subscriber = this.#client.duplicate({
      lazyConnect: true,
      keyPrefix: '',
      // Done here, so that we know when it is done.
      autoResubscribe: false,
      enableOfflineQueue: true,
      maxRetriesPerRequest: null,
      commandTimeout: undefined,
      retryStrategy: reconnectDelayMs,
    });
    subscriber.on('error', () => {});
    subscriber.on('close', () => listening.onDown());
    subscriber.on('message', (_channel: string, message: string) => listening.onMessage(message));
    subscriber.on('ready', () => {
      subscriber.subscribe(channel).then(
        () => listening.onUp(),
        // Refused, by an ACL for example: waiters poll. A lost connection comes back by itself.
        () => {},
      );
    });
    subscriber.connect().catch(() => {});
    return { close: () => closeQuietly(subscriber) };
  }

  onReplica(): void {
    if (this.isReady) this.#client.disconnect(true);
  }

  /** A stopped master keeps its connections: only who connects again asks the Sentinels. */
  onSilence(): void {
    const { sentinels } = this.#client.options;
    if (sentinels !== undefined && sentinels !== null) this.onReplica();
  }

  close(): Promise<void> {
    return closeQuietly(this.#client);
  }
}

/** Where a connection is open or being opened, and so says when it has ended. Between two attempts there is nothing to end. */
const ENDING = new Set(['connecting', 'connect', 'ready']);

async function closeQuietly(client: IoredisClient): Promise<void> {
  if (client.status === 'end') return;
  const willEnd = ENDING.has(client.status);
  const ended = new Promise<void>((resolve) => {
    client.once('end', () => resolve());
  });
  client.disconnect();
  if (willEnd) await ended;
}
