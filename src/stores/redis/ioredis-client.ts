import { setImmediate } from 'node:timers';
import { systemClock } from '../../clock.ts';
import type { ClientEvents } from './observed-client.ts';

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

interface SentinelConnector {
  connectToSentinel(...args: unknown[]): ClientEvents;
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

/** How long the server may take to close its end of a connection. */
const CLOSE_MS = 500;
/** A client in these states emits `end` after it was disconnected. */
const ENDING = new Set(['connecting', 'connect', 'ready']);

/** Never rejects, and does not wait for a server that is silent. */
export async function closeIoredis(client: IoredisClient): Promise<void> {
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
