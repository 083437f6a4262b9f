import type { Clock } from '../../clock.ts';
import { UnsupportedError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { linkOf, type RedisClient } from './client.ts';
import { RedisStore } from './redis-store.ts';

/** A store in the Redis server of a `redis://` or `rediss://` URL, through a client of its own, which `close` ends. */
export async function openRedis(url: string, options: { clock?: Clock | undefined } = {}): Promise<Store> {
  const client = await openClient(url);
  return new RedisStore(linkOf(client), { clock: options.clock }, true);
}

export async function openClient(url: string): Promise<RedisClient> {
  const ioredis = await load<{ Redis: new (url: string, options: object) => RedisClient }>(
    () => import('ioredis'),
  );
  // The core has time limits and retries of its own; the client's would only answer for it.
  if (ioredis !== undefined)
    return quiet(new ioredis.Redis(url, { lazyConnect: true, maxRetriesPerRequest: null }));
  const redis = await load<{ createClient(options: object): RedisClient }>(() => import('redis'));
  if (redis === undefined) {
    throw new UnsupportedError('Redis needs a client library: npm install ioredis (or: npm install redis)');
  }
  const client = quiet(redis.createClient({ url }));
  client.connect().catch(() => {});
  return client;
}

/** An error event that nobody listens to would end the process; what fails is told by the command that failed. */
function quiet(client: RedisClient): RedisClient {
  client.on('error', () => {});
  return client;
}

/** Undefined when it is not installed. */
async function load<T>(library: () => Promise<unknown>): Promise<T | undefined> {
  try {
    return (await library()) as T;
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ERR_MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}
