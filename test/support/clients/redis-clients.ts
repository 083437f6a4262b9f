import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { createClient } from 'redis';
import { createClient as createClient5 } from 'redis5';
import type { RedisClient } from '../../../src/stores/redis/index.ts';

/** The client libraries that the store supports. */
export type Library = 'ioredis' | 'node-redis' | 'ioredis 5' | 'node-redis 5';
export const LIBRARIES = ['ioredis', 'node-redis'] as const;
export const PREVIOUS_LIBRARIES = ['ioredis 5', 'node-redis 5'] as const;

/** Opens a connected client. Its `error` events are ignored, as a user's listener would. */
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

/** Whether a client takes itself for connected. */
export function isReady(client: RedisClient): boolean {
  const { status, isReady } = client as { status?: string; isReady?: boolean };
  return status === undefined ? isReady === true : status === 'ready';
}
