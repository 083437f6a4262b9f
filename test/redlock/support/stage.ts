import { Redis } from 'ioredis';
import { systemClock } from '../../../src/clock.ts';
import { createLocks, type Locks, type LocksOptions, type Store } from '../../../src/index.ts';
import { connectionOf } from '../../../src/stores/redis/client.ts';
import { type RedlockStoreOptions, redlockStore } from '../../../src/stores/redis/index.ts';
import type { RedlockNode } from '../../../src/stores/redlock/node.ts';
import { RedisNode } from '../../../src/stores/redlock/node.ts';
import { RedlockStore } from '../../../src/stores/redlock/redlock-store.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import type { RedisOptions } from '../../../src/torture/servers/redis.ts';
import { isReady, type Library, openClient } from '../../support/clients/redis-clients.ts';
import { type RedisNodes, startRedisNodes } from '../../support/servers/redis-nodes.ts';

/** A process with its own connections, each through its own proxy. */
export interface Process {
  readonly locks: Locks;
  readonly store: Store;
  readonly proxies: readonly FaultProxy[];
  /** Whether any of its clients takes itself for connected. */
  isConnected(): boolean;
}

/**
 * Redis nodes, processes that are connected to them, and clients for looking behind the API. All of it is
 * closed together.
 */
export interface Stage extends AsyncDisposable {
  readonly nodes: RedisNodes;
  readonly admins: readonly Redis[];
  process(options?: LocksOptions & RedlockStoreOptions, library?: Library): Promise<Process>;
  /** A process whose store has a planted defect. */
  mutant(change: (node: RedlockNode) => RedlockNode, options?: LocksOptions): Promise<Process>;
  /** How many nodes have a key for this lock now. */
  keys(name: string, prefix?: string): Promise<number>;
}

export async function startRedlockStage(
  count = 5,
  options: (index: number) => RedisOptions = () => ({}),
): Promise<Stage> {
  const nodes = await startRedisNodes(count, options);
  const admins = nodes.urls.map(quietAdmin);
  const closers: Array<() => Promise<void>> = [];

  async function connect(library: Library) {
    const proxies = await Promise.all(nodes.servers.map(({ port }) => startFaultProxy(port)));
    const opened = await Promise.all(
      proxies.map(({ port }) => openClient(library, `redis://127.0.0.1:${port}`)),
    );
    return { proxies, clients: opened.map(({ client }) => client), closes: opened.map(({ close }) => close) };
  }

  function begin(
    store: Store,
    given: LocksOptions,
    { proxies, clients, closes }: Awaited<ReturnType<typeof connect>>,
  ) {
    const locks = createLocks(store, { waitMs: 20_000, ...given });
    closers.push(async () => {
      for (const proxy of proxies) proxy.pass();
      await locks.close({ drainMs: 0 });
      for (const close of closes) close();
      await Promise.all(proxies.map((proxy) => proxy.stop()));
    });
    return { locks, store, proxies, isConnected: () => clients.some(isReady) };
  }

  return {
    nodes,
    admins,
    async process({ prefix, drift, allowEviction, ...given } = {}, library = 'ioredis') {
      const connection = await connect(library);
      return begin(redlockStore(connection.clients, { prefix, drift, allowEviction }), given, connection);
    },
    async mutant(change, given = {}) {
      const connection = await connect('ioredis');
      const own = connection.clients.map((client, index) => {
        const settings = { prefix: 'holdfast:', label: `#${index}`, allowEviction: false };
        return change(new RedisNode(connectionOf(client), settings, false));
      });
      return begin(new RedlockStore(own, { clock: systemClock, drift: 0.01 }), given, connection);
    },
    async keys(name, prefix = 'holdfast:') {
      const found = await Promise.all(
        admins.map((admin) => (admin.status === 'ready' ? admin.exists(prefix + name) : 0)),
      );
      return found.filter((each) => each === 1).length;
    },
    async [Symbol.asyncDispose]() {
      await Promise.allSettled(closers.map((close) => close()));
      for (const admin of admins) admin.disconnect();
      await nodes.stop();
    },
  };
}

/**
 * Asks again, a few times, if no majority has answered: a node has half a second at most, and a busy machine
 * may stand still for longer.
 */
export async function heard<T>(ask: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      if (tries === 4 || (error as { code?: unknown } | null)?.code !== 'QUORUM') throw error;
    }
  }
}

function quietAdmin(url: string): Redis {
  const admin = new Redis(url, { maxRetriesPerRequest: null });
  admin.on('error', () => {});
  return admin;
}
