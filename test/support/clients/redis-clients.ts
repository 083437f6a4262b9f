import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { createClient } from 'redis';
import { createClient as createClient5 } from 'redis5';
import type { RedisClient } from '../../../src/stores/redis/index.ts';

/** The client libraries that a user may bring. */
export type Library = 'ioredis' | 'node-redis' | 'ioredis 5' | 'node-redis 5';
export const LIBRARIES = ['ioredis', 'node-redis'] as const;
export const LIBRARIES_BEFORE = ['ioredis 5', 'node-redis 5'] as const;

/**
 * A connected client of that library and a way to close it. Errors are swallowed, as by a listener of the
 * user.
 */
export async function openClient(
  library: Library,
  url: string,
): Promise<{ client: RedisClient; close(): void }> {
  if (library === 'ioredis' || library === 'ioredis 5') {
    const client: Redis = library === 'ioredis' ? new Redis(url) : (new Redis5(url) as unknown as Redis);
    client.on('error', () => {});
    await client.ping();
    return { client, close: () => client.disconnect() };
  }
  const client = library === 'node-redis' ? createClient({ url }) : createClient5({ url });
  client.on('error', () => {});
  await client.connect();
  return { client, close: () => void (client.isOpen && client.destroy()) };
}
