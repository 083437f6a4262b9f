import { setImmediate } from 'node:timers';
import { systemClock } from '../../clock.ts';
import type { SubscribedConnection } from '../shared/subscription.ts';
import { type ChannelEvents, OWN_SILENCE_MS, ping, type RedisConnection } from './connection.ts';
import { type ClientEvents, ObservedClient } from './observed-client.ts';
import { type SentinelReading, viewIn } from './sentinel-checks.ts';

/** What is used of an ioredis client. */
export interface IoredisClient extends ClientEvents {
  readonly status: string;
  readonly stream?: { readonly destroyed?: boolean; destroy(): void } | undefined;
  readonly options: {
    readonly keyPrefix?: string | undefined;
    readonly sentinels?: readonly object[] | null | undefined;
  };
  call(command: string, args: string[]): Promise<unknown>;
  connect(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
  duplicate(override?: object): IoredisClient;
  subscribe(...channels: string[]): Promise<unknown>;
}

/** What is used of a socket: what is written between the two calls leaves as one packet. */
export interface Corkable {
  cork?(): void;
  uncork?(): void;
}

/**
 * A client that we have opened must not keep the process alive, by its socket or by the timer
 * between two attempts to connect. While a call of the user is pending, the core does.
 */
export function unrefIoredis<Client extends ClientEvents>(client: Client): Client {
  const unref = (): void => {
    const { stream, reconnectTimeout } = client as {
      readonly stream?: { unref?(): unknown } | null;
      readonly reconnectTimeout?: { unref?(): unknown } | null;
    };
    stream?.unref?.();
    reconnectTimeout?.unref?.();
  };
  // The socket is made after the event.
  client.on('connecting', () => void setImmediate(unref));
  client.on('connect', unref);
  client.on('reconnecting', unref);
  return client;
}

export const SENTINEL_PORT = 26_379;

interface SentinelConnector {
  connectToSentinel(...args: unknown[]): ClientEvents;
}

/** The options by which an ioredis client follows Sentinels. */
interface SentinelOptions {
  readonly sentinels?: readonly { readonly host?: string; readonly port?: number }[] | null | undefined;
  /** Of the master. */
  readonly name?: string | null | undefined;
  readonly sentinelUsername?: string | null | undefined;
  readonly sentinelPassword?: string | null | undefined;
  readonly sentinelTLS?: object | undefined;
}

/**
 * The clients with which ioredis asks the Sentinels have no error listener, and ioredis prints
 * unhandled error events on stderr. It has no option for that, nor to unref them. It subscribes
 * again without handling a failure: a Sentinel that is silent then would end the process by an
 * unhandled rejection. Only for clients that we have opened.
 */
export function adoptSentinels(client: object): void {
  const { connector } = client as { connector?: Partial<SentinelConnector> };
  const connect = connector?.connectToSentinel;
  if (connector === undefined || connect === undefined) return;
  connector.connectToSentinel = (...args) => {
    const sentinel = unrefIoredis(connect.apply(connector, args)) as IoredisClient;
    sentinel.on('error', () => {});
    const { subscribe } = sentinel;
    sentinel.subscribe = (...channels) => {
      const subscribed = subscribe.apply(sentinel, channels);
      subscribed.catch(() => {});
      return subscribed;
    };
    addHelper(client, sentinel);
    return sentinel;
  };
}

/**
 * The clients that a client of ours has opened to ask where its servers are. Closing it leaves
 * their questions pending until a time limit of ioredis, and their sockets open for longer.
 */
const HELPERS = new WeakMap<object, Set<IoredisClient>>();

export function addHelper(client: object, helper: IoredisClient): void {
  const helpers = HELPERS.get(client) ?? new Set();
  HELPERS.set(client, helpers.add(helper));
  helper.once('end', () => helpers.delete(helper));
}

export function endHelpers(client: object): void {
  for (const helper of HELPERS.get(client) ?? []) {
    helper.disconnect();
    helper.stream?.destroy();
  }
}

export class IoredisConnection<Client extends IoredisClient = IoredisClient>
  extends ObservedClient<Client>
  implements RedisConnection
{
  readonly #isOwn: boolean;

  /** `isOwn`: we have opened the client. */
  constructor(client: Client, isOwn = false) {
    super(client, { breaks: ['close'] });
    this.#isOwn = isOwn;
  }

  override get lastError(): Error | null {
    if (super.lastError !== null) return super.lastError;
    // A client without an error listener emits no error.
    const { connector } = this.client as { readonly connector?: { readonly firstError?: unknown } };
    return connector?.firstError instanceof Error ? connector.firstError : null;
  }

  get keyPrefix(): string {
    return this.client.options.keyPrefix ?? '';
  }

  get isReady(): boolean {
    // A socket that was destroyed is known to the client only after its `close` event.
    return this.client.status === 'ready' && this.client.stream?.destroyed !== true;
  }

  get closedReason(): string | null {
    return this.client.status === 'end' ? IOREDIS_CLOSED : null;
  }

  override onceReady(callback: () => void): () => void {
    const stop = super.onceReady(callback);
    // With lazyConnect it would connect at its first command, which we send when it is connected.
    if (this.client.status === 'wait') this.client.connect().catch(this.recordError);
    return stop;
  }

  send(name: string, args: string[]): Promise<unknown> {
    return this.client.call(name, args);
  }

  sendYielding(name: string, args: string[]): Promise<unknown> {
    const { stream } = this.client as { readonly stream?: Corkable | null };
    // Alone, the PING would be answered before the command has arrived.
    stream?.cork?.();
    try {
      ping(this);
      return this.client.call(name, args);
    } finally {
      stream?.uncork?.();
    }
  }

  listen(channels: string[], listening: ChannelEvents): SubscribedConnection {
    const subscriber = copyOf(this.client);
    adoptSentinels(subscriber);
    subscriber.on('message', (_channel: string, message: string) => listening.onMessage(message));
    subscriber.once('end', () => listening.onEnd());
    subscriber.subscribe(...channels).then(
      () => listening.onUp(),
      // Refused, by an ACL for example.
      () => listening.onEnd(),
    );
    return {
      close: () => closeQuietly(subscriber),
      // An error is an answer too, for example that PING is not allowed.
      checkAlive: () => subscriber.call('ping', []).catch(() => {}),
    };
  }

  onReplica(): void {
    if (this.isReady) this.client.disconnect(true);
  }

  get silence() {
    const isFollower = this.client.options.sentinels != null;
    if (!isFollower && !this.#isOwn) return null;
    return {
      // A stopped master keeps its connections, and a client asks the Sentinels when it connects.
      afterMs: isFollower ? FOLLOWER_SILENCE_MS : OWN_SILENCE_MS,
      reconnect: () => (this.#isOwn ? this.#replace() : this.onReplica()),
    };
  }

  /**
   * The client would send the commands without a reply again, after their callers have given up. So
   * they are rejected. A reset also drops what the system has not delivered yet.
   */
  #replace(): void {
    const { client } = this;
    if (!this.isReady) return;
    reset(client.stream);
    const { flushQueue } = client as { flushQueue?(error: Error, queues: object): void };
    flushQueue?.call(client, new Error('The connection was silent and is replaced'), { offlineQueue: false });
  }

  /** Asks each over a connection of its own. One without an answer has the view `null`. */
  askSentinels(limitMs: number): Promise<readonly SentinelReading[]> | null {
    const { sentinels, name } = this.client.options as SentinelOptions;
    if (sentinels == null || name == null) return null;
    return Promise.all(
      sentinels.map(async ({ host = '127.0.0.1', port = SENTINEL_PORT }) => {
        const address = `${host}:${port}`;
        const sentinel = this.#sentinelAt(host, port, limitMs);
        try {
          return { address, view: viewIn(await sentinel.call('sentinel', ['master', name])) };
        } catch {
          return { address, view: null };
        } finally {
          sentinel.disconnect();
        }
      }),
    );
  }

  #sentinelAt(host: string, port: number, limitMs: number): IoredisClient {
    const { sentinelUsername, sentinelPassword, sentinelTLS } = this.client.options as SentinelOptions;
    return copyOf<IoredisClient>(this.client, {
      host,
      port,
      sentinels: null,
      username: sentinelUsername ?? undefined,
      password: sentinelPassword ?? undefined,
      tls: sentinelTLS,
      db: 0,
      failoverDetector: false,
      enableReadyCheck: false,
      connectTimeout: limitMs,
      commandTimeout: limitMs,
    });
  }

  close(): Promise<void> {
    return closeQuietly(this.client);
  }
}

/** A copy of the client that is ours. A connection that has ended is replaced by the caller. */
export function copyOf<Client extends IoredisClient>(client: Client, options: object = {}): Client {
  const copy = client.duplicate({
    lazyConnect: true,
    keyPrefix: '',
    enableOfflineQueue: true,
    commandTimeout: undefined,
    retryStrategy: null,
    ...options,
  });
  copy.on('error', () => {});
  return unrefIoredis(copy) as Client;
}

/** How long a master may be silent before the Sentinels are asked for another. */
const FOLLOWER_SILENCE_MS = 1_000;

/** Sockets of TLS and Unix sockets cannot be reset. */
function reset(stream: IoredisClient['stream']): void {
  try {
    (stream as { resetAndDestroy?(): unknown } | undefined)?.resetAndDestroy?.();
  } catch {}
  stream?.destroy();
}

export const IOREDIS_CLOSED = 'the client has been closed or has given up reconnecting';

/** How long the server may take to close its end of a connection. */
const CLOSE_MS = 500;
/** A client in these states emits `end` after it was disconnected. */
const ENDING = new Set(['connecting', 'connect', 'ready']);

async function closeQuietly(client: IoredisClient): Promise<void> {
  const willEnd = ENDING.has(client.status);
  const ended = new Promise<void>((resolve) => {
    client.once('end', () => resolve());
  });
  const isUnused = client.status !== 'ready';
  if (client.status !== 'end') client.disconnect();
  // The client was never ready, so no command is pending.
  if (isUnused) client.stream?.destroy();
  endHelpers(client);
  if (!willEnd) return;
  // `disconnect` waits for the server to close its end too, which a stopped server never does.
  const timer = systemClock.startTimer(CLOSE_MS, () => client.stream?.destroy(), { keepAlive: true });
  await ended;
  timer.cancel();
}
