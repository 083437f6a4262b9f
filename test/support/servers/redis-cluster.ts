import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { type RedisOptions, startRedis } from '../../../src/torture/servers/redis.ts';
import type { Server } from '../../../src/torture/servers/server.ts';

/** Six nodes: the first three begin as masters, node n + 3 is the replica of node n. */
export interface RedisCluster extends AsyncDisposable {
  readonly servers: readonly Server[];
  readonly addresses: ReadonlyArray<{ readonly host: string; readonly port: number }>;
  /** `redis+cluster://a,b,c` */
  readonly url: string;
  /** A plain client of one node, to read its data. */
  admin(index: number): Redis;
  /** The node that says that it serves this slot. */
  masterOf(slot: number): Promise<number>;
  /** The id of the node in the cluster. */
  idOf(index: number): Promise<string>;
  /**
   * After how long a silent node is replaced. Long by default, so that a busy machine causes no
   * failover: a test that wants one sets it.
   */
  setNodeTimeout(ms?: number): Promise<void>;
  /** Resolves when every node says that every slot is served. */
  whole(): Promise<void>;
  stop(): Promise<void>;
}

const SLOTS = 16_384;
const MASTERS = 3;
const NODE_TIMEOUT_MS = 30_000;
/** Nodes that have joined wait this long before they serve. */
const JOINING_TIMEOUT_MS = 1_000;
/** How long the servers may take to find each other. */
const JOIN_MS = 60_000;

/** Three masters with a replica each, joined and in sync. */
export async function startRedisCluster(options: RedisOptions = {}): Promise<RedisCluster> {
  const args = [
    ...['--cluster-node-timeout', `${JOINING_TIMEOUT_MS}`, '--repl-diskless-sync-delay', '0'],
    // A replica may stand for election even if it has missed writes, but not while the nodes join.
    ...['--cluster-replica-validity-factor', '0', '--cluster-replica-no-failover', 'yes'],
    ...(options.args ?? []),
  ];
  const servers = await Promise.all(
    Array.from({ length: MASTERS * 2 }, () => startRedis({ ...options, args, cluster: true })),
  );
  const cluster = new Cluster(servers);
  try {
    await cluster.join();
    await cluster.setNodeTimeout();
  } catch (error) {
    await cluster.stop();
    throw error;
  }
  return cluster;
}

class Cluster implements RedisCluster {
  readonly servers: readonly Server[];
  readonly #admins: readonly Redis[];

  constructor(servers: readonly Server[]) {
    this.servers = servers;
    this.#admins = servers.map(({ url }) => {
      const client = new Redis(url, { maxRetriesPerRequest: null });
      client.on('error', () => {});
      return client;
    });
  }

  get addresses(): ReadonlyArray<{ readonly host: string; readonly port: number }> {
    return this.servers.map(({ port }) => ({ host: '127.0.0.1', port }));
  }

  get url(): string {
    return `redis+cluster://${this.servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`;
  }

  admin(index: number): Redis {
    const client = this.#admins[index];
    if (client === undefined) throw new Error(`there is no node ${index}`);
    return client;
  }

  async masterOf(slot: number): Promise<number> {
    for (const giveUpAt = performance.now() + JOIN_MS; performance.now() < giveUpAt; ) {
      for (const [index, client] of this.#admins.entries()) {
        if (client.status !== 'ready') continue;
        // A paused node is connected, and does not answer.
        const nodes = await Promise.race([client.call('CLUSTER', 'NODES'), sleep(500, '')]);
        const lines = String(nodes).split('\n');
        const own = lines.find((line) => / myself,master /.test(line))?.split(' ') ?? [];
        if (own.slice(8).some((range) => covers(range, slot))) return index;
      }
      await sleep(50);
    }
    throw new Error(`nobody serves slot ${slot}`);
  }

  async idOf(index: number): Promise<string> {
    return String(await this.admin(index).call('CLUSTER', 'MYID'));
  }

  async setNodeTimeout(ms = NODE_TIMEOUT_MS): Promise<void> {
    const ready = this.#admins.filter(({ status }) => status === 'ready');
    const settings = ['cluster-node-timeout', `${ms}`, 'cluster-replica-no-failover', 'no'];
    await Promise.all(ready.map((client) => client.call('CONFIG', 'SET', ...settings)));
  }

  async whole(): Promise<void> {
    await this.#each('every slot is served', async (client) =>
      String(await client.call('CLUSTER', 'INFO')).includes('cluster_state:ok'),
    );
  }

  async join(): Promise<void> {
    const share = Math.ceil(SLOTS / MASTERS);
    for (let n = 0; n < MASTERS; n += 1) {
      const range = [`${n * share}`, `${Math.min((n + 1) * share, SLOTS) - 1}`];
      await this.admin(n).call('CLUSTER', 'ADDSLOTSRANGE', ...range);
    }
    for (const [n, client] of this.#admins.entries())
      await client.call('CLUSTER', 'SET-CONFIG-EPOCH', `${n + 1}`);
    const buses: string[] = [];
    for (const client of this.#admins) {
      const [, port] = (await client.call('CONFIG', 'GET', 'cluster-port')) as string[];
      buses.push(port ?? '');
    }
    // Every node meets every other: waiting for the gossip would take seconds.
    for (const client of this.#admins) {
      for (const [n, { host, port }] of this.addresses.entries())
        await client.call('CLUSTER', 'MEET', host, `${port}`, buses[n] ?? '');
    }
    await this.#each('they know each other', async (client) =>
      String(await client.call('CLUSTER', 'INFO')).includes(`cluster_known_nodes:${this.servers.length}`),
    );
    for (let n = 0; n < MASTERS; n += 1) {
      const id = await this.idOf(n);
      await this.#retried(() => this.admin(n + MASTERS).call('CLUSTER', 'REPLICATE', id));
    }
    await this.#each('every slot is served, and every replica known', async (client) => {
      const nodes = String(await client.call('CLUSTER', 'NODES'));
      const isOk = String(await client.call('CLUSTER', 'INFO')).includes('cluster_state:ok');
      return isOk && nodes.match(/slave/g)?.length === MASTERS && !/handshake|\bfail\b/.test(nodes);
    });
    await this.#each('the replicas have the data', async (client) => {
      const info = await client.info('replication');
      return info.includes('role:master') || info.includes('master_link_status:up');
    });
  }

  async #retried(work: () => Promise<unknown>): Promise<void> {
    for (const giveUpAt = performance.now() + JOIN_MS; ; ) {
      try {
        await work();
        return;
      } catch (error) {
        if (performance.now() > giveUpAt) throw error;
        await sleep(50);
      }
    }
  }

  async #each(what: string, isSo: (client: Redis) => Promise<boolean>): Promise<void> {
    const giveUpAt = performance.now() + JOIN_MS;
    for (const client of this.#admins) {
      while (!(await isSo(client))) {
        if (performance.now() > giveUpAt) throw new Error(`the cluster did not come up: ${what}`);
        await sleep(25);
      }
    }
  }

  async stop(): Promise<void> {
    for (const client of this.#admins) client.disconnect();
    for (const server of this.servers) server.kill('SIGKILL');
    await Promise.all(this.servers.map((server) => server.stop()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

function covers(range: string, slot: number): boolean {
  const [from, to = from] = range.split('-').map(Number);
  return from !== undefined && to !== undefined && from <= slot && slot <= to;
}
