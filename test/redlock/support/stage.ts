import { Redis } from 'ioredis';
import { systemClock } from '../../../src/clock.ts';
import { createLocks, type Locks, type LocksOptions, type Store } from '../../../src/index.ts';
import type { QuorumNode } from '../../../src/stores/quorum/node.ts';
import { QuorumStore } from '../../../src/stores/quorum/quorum-store.ts';
import { RedisNode } from '../../../src/stores/quorum/redis-node.ts';
import { linkOf } from '../../../src/stores/redis/client.ts';
import { type RedlockStoreOptions, redlockStore } from '../../../src/stores/redis/index.ts';
import { type FaultProxy, startFaultProxy } from '../../support/fault-proxy.ts';
import { type Library, openClient } from '../../support/redis-clients.ts';
import type { RedisOptions } from '../../support/servers/redis.ts';
import { type RedisNodes, startRedisNodes } from '../../support/servers/redis-nodes.ts';

/** A process with its own connections, each through a proxy of its own. */
export interface Process {
  readonly locks: Locks;
  readonly store: Store;
  readonly proxies: readonly FaultProxy[];
}

/** Redis nodes of a test's own, what connects to them, and a look behind the API. All of it is closed together. */
export interface Stage extends AsyncDisposable {
  readonly nodes: RedisNodes;
  readonly admins: readonly Redis[];
  process(options?: LocksOptions & RedlockStoreOptions, library?: Library): Promise<Process>;
  /** A process whose store may have been changed on purpose. */
  mutant(change: (node: QuorumNode) => QuorumNode, options?: LocksOptions): Promise<Process>;
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
    { proxies, closes }: Awaited<ReturnType<typeof connect>>,
  ) {
    const locks = createLocks(store, { waitMs: 20_000, ...given });
    closers.push(async () => {
      for (const proxy of proxies) proxy.pass();
      await locks.close({ drainMs: 0 });
      for (const close of closes) close();
      await Promise.all(proxies.map((proxy) => proxy.stop()));
    });
    return { locks, store, proxies };
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
        return change(new RedisNode(linkOf(client), settings, false));
      });
      return begin(new QuorumStore(own, { clock: systemClock, drift: 0.01 }), given, connection);
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

/** Asks again, a few times, when no majority has answered: a node gets half a second at most, and a machine that stands still for as long says nothing of the store. */
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
