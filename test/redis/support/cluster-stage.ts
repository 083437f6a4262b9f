import { createLocks, type Locks, type LocksOptions } from '../../../src/index.ts';
import { slotOf as ownSlotOf } from '../../../src/stores/redis/cluster/slots.ts';
import { type RedisStoreOptions, redisStore } from '../../../src/stores/redis/index.ts';
import { openClusterClient } from '../../support/clients/cluster-clients.ts';
import type { Library } from '../../support/clients/redis-clients.ts';
import { type RedisCluster, startRedisCluster } from '../../support/servers/redis-cluster.ts';

/** A Cluster, and clients of it. All of it is closed together. */
export interface ClusterStage extends AsyncDisposable {
  readonly cluster: RedisCluster;
  locks(library: Library, options?: LocksOptions & RedisStoreOptions): Promise<Locks>;
  /** Closes these locks and their client, before the stage does. */
  leave(locks: Locks): Promise<void>;
  /** Closes all locks so far. Later tests then do not count their heartbeats and checks. */
  leaveAll(): Promise<void>;
  /** The slot of a key, as the server computes it. */
  slotOf(key: string): Promise<number>;
  /** The node that serves a lock's slot now. */
  masterOf(name: string): Promise<number>;
}

export async function startClusterStage(): Promise<ClusterStage> {
  const cluster = await startRedisCluster();
  const closers = new Map<Locks, () => Promise<void>>();
  const leaveAll = async (): Promise<void> => {
    await Promise.allSettled([...closers.values()].map((close) => close()));
  };
  const slotOf = async (key: string): Promise<number> =>
    Number(await cluster.admin(0).call('CLUSTER', 'KEYSLOT', key));
  return {
    cluster,
    slotOf,
    async masterOf(name) {
      return await cluster.masterOf(ownSlotOf(`holdfast:${name}`));
    },
    async locks(library, given = {}) {
      const { client, close } = await openClusterClient(library, cluster);
      const { prefix, queueMax, allowEviction, ...rest } = given;
      const store = redisStore(client, { prefix, queueMax, allowEviction });
      const locks = createLocks(store, { waitMs: 20_000, ...rest });
      closers.set(locks, async () => {
        closers.delete(locks);
        await locks.close({ drainMs: 0 });
        close();
      });
      return locks;
    },
    async leave(locks) {
      await closers.get(locks)?.();
    },
    leaveAll,
    async [Symbol.asyncDispose]() {
      await leaveAll();
      await cluster.stop();
    },
  };
}

/** A name of a lock in a slot that this node serves at first. */
export function nameAt(node: number, word: string): string {
  for (let n = 0; ; n += 1) {
    const name = `${word} ${n}`;
    if (Math.floor(ownSlotOf(`holdfast:${name}`) / 5462) === node) return name;
  }
}
