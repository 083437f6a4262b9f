import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createLocks, type Locks } from '../../../src/index.ts';
import { slotOf } from '../../../src/stores/redis/cluster/slots.ts';
import { type RedisClusterClient, redisStore } from '../../../src/stores/redis/index.ts';
import { openClusterClient } from '../../support/clients/cluster-clients.ts';
import { LIBRARIES, type Library } from '../../support/clients/redis-clients.ts';
import { callersOfAll, cpuShareOf, heapMb, leftBehindMb, worksAgain } from '../../support/outage/callers.ts';
import { type RedisCluster, startRedisCluster } from '../../support/servers/redis-cluster.ts';

interface Emitter {
  listenerCount(event: string): number;
}

/** The connections that a Cluster client has to its nodes, and the client itself. */
function emittersOf(library: Library, client: RedisClusterClient): Emitter[] {
  if (library === 'ioredis') {
    const { nodes } = client as unknown as { nodes(role: 'all'): Emitter[] };
    return [client as unknown as Emitter, ...nodes.call(client, 'all')];
  }
  const { nodeByAddress } = client as unknown as { nodeByAddress: Map<string, { client?: Emitter }> };
  const nodes = [...nodeByAddress.values()].flatMap((node) => node.client ?? []);
  return [client as unknown as Emitter, ...nodes];
}

/** Whether the client has a connection to the node of this port. */
function isConnected(library: Library, client: RedisClusterClient, port: number): boolean {
  if (library === 'ioredis') {
    const { nodes } = client as unknown as {
      nodes(role: 'all'): { status: string; options: { port: number } }[];
    };
    return nodes
      .call(client, 'all')
      .some(({ status, options }) => status === 'ready' && options.port === port);
  }
  const { nodeByAddress } = client as unknown as {
    nodeByAddress: Map<string, { client?: { isReady: boolean } }>;
  };
  return nodeByAddress.get(`127.0.0.1:${port}`)?.client?.isReady === true;
}

const EVENTS = ['ready', 'end', 'close', 'error', 'connect', 'disconnect'];

/** The most listeners that any of them has for one event. */
const mostListeners = (emitters: readonly Emitter[]): number =>
  Math.max(...emitters.flatMap((emitter) => EVENTS.map((event) => emitter.listenerCount(event))));

/** Names of locks in different slots that the first master serves. */
function namesAtFirstMaster(count: number, word = 'lock'): string[] {
  const bySlot = new Map<number, string>();
  for (let n = 0; bySlot.size < count; n += 1) {
    const slot = slotOf(`holdfast:${word} ${n}`);
    if (slot < 5_000) bySlot.set(slot, `${word} ${n}`);
  }
  return [...bySlot.values()];
}

let cluster: RedisCluster;
beforeAll(async () => {
  cluster = await startRedisCluster();
});
afterAll(async () => {
  await cluster.stop();
});

/** A Cluster client of one library, and locks over it. */
interface Opened {
  readonly library: Library;
  readonly client: RedisClusterClient;
  readonly locks: Locks;
}

/** Closed when the test has finished. */
async function open(library: Library): Promise<Opened> {
  const { client, close } = await openClusterClient(library, cluster);
  const locks = createLocks(redisStore(client));
  onTestFinished(async () => {
    await locks.close({ drainMs: 0 });
    close();
  });
  return { library, client, locks };
}

const openAll = (): Promise<Opened[]> => Promise.all(LIBRARIES.map(open));

/** How many keys the first master has written: two for each grant. */
async function keysWritten(): Promise<number> {
  const info = await cluster.admin(0).info('commandstats');
  return Number(/cmdstat_set:calls=(\d+)/.exec(info)?.[1] ?? 0);
}

// The client libraries share a Cluster, and the bounds hold for both of them together.
describe('a master that is out of reach and not replaced', () => {
  it.each(LIBRARIES)(
    'is not sent claims that were given up while it could not be reached, under %s',
    async (library) => {
      const { client, locks } = await open(library);
      const names = namesAtFirstMaster(100);
      const { port } = cluster.servers[0] as { port: number };
      await Promise.all(names.map((name) => locks.mutex(name).run(() => {})));
      const before = await keysWritten();
      // The client connects again at once. Should it be connected again by now, that is ended too.
      for (let looks = 0; isConnected(library, client, port); looks += 1) {
        if (looks % 1_000 === 0) await cluster.admin(0).call('CLIENT', 'KILL', 'TYPE', 'normal');
        await setImmediate();
      }
      const controller = new AbortController();
      const claims = names.map((name) => locks.mutex(name).acquire({ signal: controller.signal }));
      // They have reached the store by then, and no connection can be back.
      for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
      controller.abort(new Error('enough'));
      for (const outcome of await Promise.allSettled(claims))
        expect(outcome).toMatchObject({ status: 'rejected', reason: { message: 'enough' } });
      await worksAgain(locks, names[0] ?? '');
      await sleep(1_000);
      expect((await keysWritten()) - before).toBeLessThanOrEqual(10);
    },
  );

  it('costs next to nothing while it is stopped and callers give up', async () => {
    const all = await openAll();
    const resume = (): void => cluster.servers[0]?.kill('SIGCONT');
    onTestFinished(resume);
    await expectCheap(all, () => cluster.servers[0]?.kill('SIGSTOP'));
    resume();
    for (const { locks } of all) await worksAgain(locks, namesAtFirstMaster(1)[0] ?? '');
  }, 60_000);

  it('costs next to nothing while it is dead, and leaves no listeners on the client', async () => {
    const all = await openAll();
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on('warning', onWarning);
    onTestFinished(() => void process.off('warning', onWarning));
    const names = namesAtFirstMaster(100);
    for (const { locks } of all) await Promise.all(names.map((name) => locks.mutex(name).run(() => {})));
    const before = all.map(({ library, client }) => mostListeners(emittersOf(library, client)));
    for (const index of [0, 3]) {
      cluster.servers[index]?.kill('SIGKILL');
      await cluster.servers[index]?.exited();
    }
    await Promise.all(all.map(({ locks }) => expectRefused(locks, names)));
    // What a client still waits for is given up soon after its caller was.
    await sleep(1_000);
    for (const [n, { library, client }] of all.entries())
      expect(mostListeners(emittersOf(library, client))).toBeLessThanOrEqual((before[n] ?? 0) + 2);
    expect(warnings.map(({ name }) => name)).not.toContain('MaxListenersExceededWarning');
    await expectCheap(all, () => {});
  }, 60_000);
});

async function expectRefused(locks: Locks, names: readonly string[]): Promise<void> {
  for (let round = 0; round < 4; round += 1) {
    const tries = names.map((name) =>
      locks
        .mutex(name)
        .tryAcquire()
        .catch((error: unknown) => error),
    );
    for (const error of await Promise.all(tries)) expect(error).toMatchObject({ code: 'STORE' });
  }
}

/** Memory with many callers, and processor time with a few. */
async function expectCheap(all: readonly Opened[], beginOutage: () => void): Promise<void> {
  const names = namesAtFirstMaster(20, 'given up');
  const nameOf = (_kind: string, call: number): string => names[call % names.length] ?? '';
  const locks = all.map((each) => each.locks);
  const startMb = await heapMb();
  beginOutage();
  expect(await leftBehindMb(() => callersOfAll(locks, 10, 5, nameOf), 2_500)).toBeLessThan(5);
  expect((await heapMb()) - startMb).toBeLessThan(20);
  expect(await cpuShareOf(() => callersOfAll(locks, 10, 250, nameOf), 0.3)).toBeLessThan(0.3);
}
