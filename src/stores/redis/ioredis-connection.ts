import { systemClock } from '../../clock.ts';
import type { SubscribedConnection } from '../shared/subscription.ts';
import {
  type ChannelEvents,
  type Corkable,
  OWN_SILENCE_MS,
  ping,
  type RedisConnection,
  type Silence,
} from './connection.ts';
import { type ClientEvents, ObservedClient } from './observed-client.ts';
import type { SentinelReading } from './sentinel-checks.ts';
import { readSentinels } from './sentinel-reader.ts';
import { unrefIoredis } from './unref.ts';

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

interface SentinelConnector {
  connectToSentinel(...args: unknown[]): ClientEvents;
}

/**
 * The clients with which ioredis asks the Sentinels have no error listener, and ioredis prints
 * unhandled error events on stderr. It has no option for that, nor to unref them. After a reconnect
 * it subscribes again without handling a failure: a Sentinel that is silent then would end the
 * process by an unhandled rejection. Only for clients that we have opened.
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
 * The clients that a client of ours has opened to ask where its servers are. Closing it leaves their
 * questions pending until a time limit of ioredis, and their sockets open for longer.
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

export class IoredisConnection extends ObservedClient<IoredisClient> implements RedisConnection {
  readonly #isOwn: boolean;

  /** `isOwn`: we have opened the client. */
  constructor(client: IoredisClient, isOwn = false) {
    super(client, { breaks: ['close'] });
    this.#isOwn = isOwn;
  }

  override get lastError(): Error | null {
    if (this.errors.last !== null) return this.errors.last;
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
    // A client made with lazyConnect connects at its first command, which we only send when it is
    // connected.
    if (this.client.status === 'wait') this.client.connect().catch(this.errors.record);
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
    const subscriber = unrefIoredis(
      this.client.duplicate({
        lazyConnect: true,
        keyPrefix: '',
        enableOfflineQueue: true,
        commandTimeout: undefined,
        // A connection that has ended is replaced by the caller.
        retryStrategy: null,
      }),
    );
    subscriber.on('error', () => {});
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

  get silence(): Silence | null {
    const { sentinels } = this.client.options;
    const isFollower = sentinels !== undefined && sentinels !== null;
    if (!isFollower && !this.#isOwn) return null;
    return {
      // A stopped master keeps its connections. The client asks the Sentinels only when it connects.
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

  askSentinels(limitMs: number): Promise<readonly SentinelReading[]> | null {
    return readSentinels(this.client, limitMs);
  }

  close(): Promise<void> {
    return closeQuietly(this.client);
  }
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
  if (client.status === 'end') {
    endHelpers(client);
    return;
  }
  const willEnd = ENDING.has(client.status);
  const ended = new Promise<void>((resolve) => {
    client.once('end', () => resolve());
  });
  const isUnused = client.status !== 'ready';
  client.disconnect();
  // Nothing was sent that a server which is silent from the start could still need.
  if (isUnused) client.stream?.destroy();
  endHelpers(client);
  if (!willEnd) return;
  // `disconnect` waits for the server to close its end too, which a stopped server never does.
  const timer = systemClock.startTimer(CLOSE_MS, () => client.stream?.destroy(), { keepAlive: true });
  await ended;
  timer.cancel();
}
