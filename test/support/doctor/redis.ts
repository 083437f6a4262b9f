import { Redis } from 'ioredis';
import type { Server } from '../../../src/torture/servers/server.ts';
import { eventually } from '../waiting/eventually.ts';

/** The settings of a Redis server that has no problems. */
export const GOOD_REDIS = ['--appendonly', 'yes', '--appendfsync', 'always'] as const;

/** Sends one command, and resolves to its reply. */
export async function told(
  { url }: Pick<Server, 'url'>,
  command: string,
  ...args: string[]
): Promise<unknown> {
  const client = new Redis(url, { maxRetriesPerRequest: null });
  client.on('error', () => {});
  try {
    return await client.call(command, ...args);
  } finally {
    client.disconnect();
  }
}

/** Resolves when the replica has the data of its master. */
export async function inSync(replica: Server): Promise<void> {
  await eventually('the replica is in sync', async () =>
    String(await told(replica, 'INFO', 'replication')).includes('master_link_status:up'),
  );
}
