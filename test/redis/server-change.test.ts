import type { EventEmitter } from 'node:events';
import { expect, it } from 'vitest';
import { createLocks } from '../../src/index.ts';
import { connectionOf } from '../../src/stores/redis/client.ts';
import type { RedisConnection } from '../../src/stores/redis/connection.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { RedisStore } from '../../src/stores/redis/redis-store.ts';
import { LIBRARIES, openClient, PREVIOUS_LIBRARIES } from '../support/clients/redis-clients.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { startStage } from './support/stage.ts';

const stage = await useStage(startStage());

it.each([...LIBRARIES, ...PREVIOUS_LIBRARIES])(
  'a server is checked again after a reconnect between two commands, under %s',
  async (library) => {
    const { client, close } = await openClient(library, stage.proxyUrl);
    const locks = createLocks(redisStore(client));
    await (await locks.mutex('before').acquire()).release();
    await stage.admin.config('SET', 'maxmemory', '1gb', 'maxmemory-policy', 'allkeys-lru');
    try {
      await new Promise<void>((resolve) => {
        (client as unknown as EventEmitter).once('ready', () => resolve());
        stage.proxy.cut();
      });
      await expect(locks.mutex('after').tryAcquire()).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    } finally {
      await stage.admin.config('SET', 'maxmemory', '0', 'maxmemory-policy', 'noeviction');
      await locks.close({ drainMs: 0 });
      close();
    }
  },
);

it('a server that did not answer when the store was opened is checked when it does', async () => {
  const { client, close } = await openClient('ioredis', stage.server.url);
  let answers = false;
  // As a Cluster whose masters are all silent at first.
  const connection = Object.assign(connectionOf(client), {
    servers: async (): Promise<readonly RedisConnection[]> => (answers ? [connection] : []),
  });
  const store = new RedisStore(connection, {}, false);
  const locks = createLocks(store);
  await stage.admin.config('SET', 'maxmemory', '1gb', 'maxmemory-policy', 'allkeys-lru');
  try {
    await expect(locks.mutex('unchecked').tryAcquire()).rejects.toMatchObject({
      code: 'STORE',
      applied: 'no',
      message: expect.stringContaining('no master has answered'),
    });
    answers = true;
    await expect(locks.mutex('unchecked').tryAcquire()).rejects.toMatchObject({ code: 'UNSUPPORTED' });
  } finally {
    await stage.admin.config('SET', 'maxmemory', '0', 'maxmemory-policy', 'noeviction');
    await locks.close({ drainMs: 0 });
    close();
  }
});
