import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { createLocks, type Locks } from '../../../src/index.ts';
import { type RedisClusterClient, redisStore } from '../../../src/stores/redis/index.ts';
import { startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { nameAt, startClusterStage } from '../../redis/support/cluster-stage.ts';
import { openClusterClient } from '../../support/clients/cluster-clients.ts';
import { LIBRARIES } from '../../support/clients/redis-clients.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';

const stage = await useStage(startClusterStage());

interface Copied {
  duplicate(override: { socket?: object }): unknown;
}

/** Copies of the client's connections, which are its subscribers, connect to this port instead. */
function subscribeAt(port: number, client: RedisClusterClient): void {
  const { nodes, nodeByAddress } = client as {
    nodes?: Cluster['nodes'];
    nodeByAddress?: ReadonlyMap<string, { readonly client?: Copied }>;
  };
  const all: Array<Copied | undefined> = [
    ...((nodes?.call(client as unknown as Cluster, 'all') ?? []) as Copied[]),
    ...[...(nodeByAddress?.values() ?? [])].map((node) => node.client),
  ];
  for (const node of all) {
    const duplicate = node?.duplicate;
    if (node === undefined || duplicate === undefined) continue;
    node.duplicate = (override) =>
      duplicate.call(node, { ...override, port, socket: { ...override.socket, port } } as object);
  }
}

/** How long a waiter that has waited for a moment takes to follow the holder. */
async function handoffMs(holder: Locks, waiter: Locks, name: string): Promise<number> {
  const hold = await holder.mutex(name).acquire();
  const waiting = later(waiter.mutex(name).acquire());
  await eventually('it waits', async () => (await holder.inspect(name)).waiters.length === 1);
  await sleep(1_200);
  const releasedMs = performance.now();
  await hold.release();
  await (await waiting).release();
  return performance.now() - releasedMs;
}

describe.concurrent.each(LIBRARIES)('row 21: connections that drop every packet, under %s', (library) => {
  it('a subscriber of a node is replaced, and waiters are woken again', async ({ onTestFinished }) => {
    const proxy = await startFaultProxy(stage.cluster.servers[0]?.port ?? 0);
    onTestFinished(() => proxy.stop());
    const name = nameAt(0, `muted ${library}`);
    const holder = await stage.locks(library);
    const { client, close } = await openClusterClient(library, stage.cluster);
    const waiter = createLocks(redisStore(client), { waitMs: 20_000 });
    onTestFinished(async () => {
      await waiter.close({ drainMs: 0 });
      close();
    });
    await (await waiter.mutex(name).acquire()).release();
    subscribeAt(proxy.port, client);
    const isWoken = async (): Promise<boolean> => (await handoffMs(holder, waiter, name)) < 1_000;
    await eventually('it is woken', isWoken);
    expect(proxy.connections).toBe(1);
    proxy.dropOpen();
    expect(await isWoken()).toBe(false);
    await eventually('it is woken again', isWoken, 35_000);
  });
});
