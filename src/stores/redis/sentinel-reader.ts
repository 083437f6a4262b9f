import type { IoredisClient } from './ioredis-connection.ts';
import { type SentinelReading, viewIn } from './sentinel-checks.ts';
import { unrefIoredis } from './unref.ts';

/** The options by which an ioredis client follows Sentinels. */
interface SentinelOptions {
  readonly sentinels?: readonly { readonly host?: string; readonly port?: number }[] | null | undefined;
  /** Of the master. */
  readonly name?: string | null | undefined;
  readonly sentinelUsername?: string | null | undefined;
  readonly sentinelPassword?: string | null | undefined;
  readonly sentinelTLS?: object | undefined;
}

const SENTINEL_PORT = 26_379;

/**
 * Asks each Sentinel of the client for its view of the master, over a connection of its own. A
 * Sentinel without an answer within the limit has the view `null`. `null`: the client follows none.
 */
export function readSentinels(
  client: IoredisClient,
  limitMs: number,
): Promise<readonly SentinelReading[]> | null {
  const options = client.options as SentinelOptions;
  const { sentinels, name } = options;
  if (sentinels == null || name == null) return null;
  return Promise.all(
    sentinels.map(async ({ host = '127.0.0.1', port = SENTINEL_PORT }) => {
      const sentinel = clientOf(client, options, { host, port }, limitMs);
      try {
        const reply = await sentinel.call('sentinel', ['master', name]);
        return { address: `${host}:${port}`, view: viewIn(reply) };
      } catch {
        return { address: `${host}:${port}`, view: null };
      } finally {
        sentinel.disconnect();
      }
    }),
  );
}

function clientOf(
  client: IoredisClient,
  { sentinelUsername, sentinelPassword, sentinelTLS }: SentinelOptions,
  address: { readonly host: string; readonly port: number },
  limitMs: number,
): IoredisClient {
  const sentinel = client.duplicate({
    ...address,
    sentinels: null,
    username: sentinelUsername ?? undefined,
    password: sentinelPassword ?? undefined,
    tls: sentinelTLS,
    db: 0,
    keyPrefix: '',
    failoverDetector: false,
    enableReadyCheck: false,
    enableOfflineQueue: true,
    retryStrategy: () => null,
    connectTimeout: limitMs,
    commandTimeout: limitMs,
    lazyConnect: true,
  });
  sentinel.on('error', () => {});
  return unrefIoredis(sentinel);
}
