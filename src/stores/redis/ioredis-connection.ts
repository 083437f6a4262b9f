import type { SubscribedConnection } from '../shared/subscription.ts';
import { type ChannelEvents, OWN_SILENCE_MS, ping, type RedisConnection } from './connection.ts';
import { adoptSentinels, closeIoredis, copyOf, type IoredisClient } from './ioredis-client.ts';
import { ObservedClient } from './observed-client.ts';
import { readSentinels, type SentinelReading } from './sentinel-checks.ts';

export const IOREDIS_CLOSED = 'the client has been closed or has given up reconnecting';

/** What is used of a socket: what is written between the two calls leaves as one packet. */
export interface Corkable {
  cork?(): void;
  uncork?(): void;
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
      close: () => closeIoredis(subscriber),
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

  askSentinels(limitMs: number): Promise<readonly SentinelReading[]> | null {
    return readSentinels(this.client, limitMs);
  }

  close(): Promise<void> {
    return closeIoredis(this.client);
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
