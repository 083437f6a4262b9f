import type { EventEmitter } from 'node:events';
import { expect } from 'vitest';
import type { Store } from '../../../src/store/store.ts';
import { type RedisClient, type RedisClusterClient, redisStore } from '../../../src/stores/redis/index.ts';
import { eventually } from '../../support/waiting/eventually.ts';

/** Opens and closes stores over a connected client. `emitters`: the client, and those of its nodes. */
export async function expectSharedListeners(
  client: RedisClient | RedisClusterClient,
  emitters: () => readonly EventEmitter[],
): Promise<void> {
  const count = (): number =>
    emitters()
      .flatMap((emitter) => emitter.eventNames().map((event) => emitter.listenerCount(event)))
      .reduce((sum, each) => sum + each, 0);
  const open = async (): Promise<Store> => {
    const store = redisStore(client);
    // Locks of several nodes.
    await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => store.read(name)));
    return store;
  };
  // A client of node-redis connects to a node of a Cluster when the node is first used.
  await (await open()).close();
  const before = count();
  for (let round = 0; round < 2; round += 1) {
    const first = await open();
    const withOne = count();
    expect(withOne).toBeGreaterThan(before);
    const others = [await open(), await open()];
    expect(count()).toBe(withOne);
    await first.close();
    expect(count()).toBe(withOne);
    await others[0]?.read('a');
    for (const store of others) await store.close();
    await eventually('the listeners are gone', () => count() === before);
  }
}
