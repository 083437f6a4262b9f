import type { EventEmitter } from 'node:events';
import { beforeAll, describe, expect, it } from 'vitest';
import { counted } from '../../bench/zookeeper/counted.ts';
import { createLocks, type Locks } from '../../src/index.ts';
import type { RawClient, Transaction } from '../../src/stores/zookeeper/client.ts';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { permits, request } from '../../src/testing/store-case.ts';
import { startFaultProxy } from '../../src/torture/servers/fault-proxy.ts';
import { nodesOf } from '../faults/zookeeper/support/witness.ts';
import { cleanups } from '../support/hooks/cleanups.ts';
import { type Ensemble, STEADY, startEnsemble } from '../support/servers/zookeeper.ts';
import { later, until } from '../support/waiting/eventually.ts';

/** A queue that is empty, almost full, or whose lock node is created again. */
const CONNECTED = 3;
const PERSISTENT = 0;
const EPHEMERAL_SEQUENTIAL = 3;
const USES = 3;

const atTheEnd = cleanups();
let ensemble: Ensemble;
let direct: RawClient;
beforeAll(async () => {
  ensemble = await startEnsemble(STEADY);
  atTheEnd(() => ensemble.stop());
  direct = ensemble.client({ sessionMs: 5_000 });
});

function open(client: RawClient = ensemble.client({ sessionMs: 5_000 }), removeEmpty = false): Locks {
  const locks = createLocks(zookeeperStore(client, { removeEmpty }), { waitMs: 20_000 });
  atTheEnd(() => locks.close({ drainMs: 0 }));
  return locks;
}

async function use(locks: Locks, name: string, times: number): Promise<void> {
  for (let n = 0; n < times; n += 1) await (await locks.mutex(name).acquire()).release();
}

const make = (path: string, mode: number): Promise<string> =>
  new Promise((resolve, reject) =>
    direct.create(path, Buffer.alloc(0), undefined, mode, (error, made) =>
      error ? reject(error) : resolve(made),
    ),
  );

const remove = (path: string): Promise<void> =>
  new Promise((resolve, reject) => direct.remove(path, (error) => (error ? reject(error) : resolve())));

const createdBy = (client: RawClient, path: string): Promise<bigint | null> =>
  new Promise((resolve) =>
    client.exists(path, (_error, stat) => resolve(stat?.czxid.readBigInt64BE() ?? null)),
  );

/**
 * The lock node is removed and created again, and other claims take the positions up to the one
 * that the next claim expects.
 */
async function makeAnew(name: string, others: number): Promise<string[]> {
  await remove(`/locks/${name}`);
  await make(`/locks/${name}`, PERSISTENT);
  const made: string[] = [];
  for (let n = 0; n < others; n += 1)
    made.push(await make(`/locks/${name}/other-${n}__lock__`, EPHEMERAL_SEQUENTIAL));
  return made;
}

describe.concurrent('a lock that one process uses repeatedly', () => {
  it('costs one transaction, one read and one delete each time', async () => {
    const { client, count } = counted(ensemble.client({ sessionMs: 5_000 }));
    const locks = open(client);
    await use(locks, 'again', USES);
    const before = { ...count };
    const startedMs = performance.now();
    await use(locks, 'again', 50);
    expect(count.creates - before.creates).toBe(0);
    expect(count.removes - before.removes).toBe(50);
    // Heartbeats, of which there are more on a slow machine.
    const seconds = (performance.now() - startedMs) / 1_000;
    expect(count.reads - before.reads).toBeLessThan(60 + 2 * seconds);
    expect(count.transactions - before.transactions).toBeGreaterThanOrEqual(50);
    expect(count.transactions - before.transactions).toBeLessThan(53 + seconds);
  });

  it('is refused while another process holds in between, and granted after that', async () => {
    const [locks, others] = [open(), open()];
    for (let round = 0; round < 3; round += 1) {
      await use(locks, 'between', USES);
      const other = await others.mutex('between').acquire();
      expect(await locks.mutex('between').tryAcquire()).toBeNull();
      const waiting = later(locks.mutex('between').acquire());
      await until('nobody waits', async () => (await nodesOf(direct, 'between')).length === 2);
      await other.release();
      const hold = await waiting;
      expect(hold.fence).toBeGreaterThan(other.fence);
      expect(await others.mutex('between').tryAcquire()).toBeNull();
      await hold.release();
    }
  });

  it('refuses a writer while one of several readers is left, whichever leaves first', async () => {
    const lock = open().readWriteLock('readers');
    for (let round = 0; round < USES; round += 1) {
      const writer = await lock.write.acquire();
      const waiting = later(Promise.all([lock.read.acquire(), lock.read.acquire()]));
      await until('not both wait', async () => (await nodesOf(direct, 'readers')).length === 3);
      await writer.release();
      const [first, last] = await waiting;
      await last.release();
      expect(await lock.write.tryAcquire()).toBeNull();
      await first.release();
    }
  });

  it('row 57: is not granted when its node was created again, though the count comes out right', async () => {
    const locks = open();
    await use(locks, 'anew', USES);
    const others = await makeAnew('anew', USES);
    expect(await locks.mutex('anew').tryAcquire()).toBeNull();
    for (const node of others) await remove(node);
    await use(locks, 'anew', USES);
  });

  it('row 57: nor when that happened while the connection was cut', async () => {
    const proxies = await Promise.all(ensemble.members.map((member) => startFaultProxy(member.port)));
    atTheEnd(async () => void (await Promise.all(proxies.map((proxy) => proxy.stop()))));
    const address = proxies.map((proxy) => `127.0.0.1:${proxy.port}`).join(',');
    const client = ensemble.client({ address, sessionMs: 5_000 });
    const locks = open(client);
    await use(locks, 'cut-anew', USES);
    for (const proxy of proxies) proxy.refuse();
    for (const proxy of proxies) proxy.cut();
    await until('still connected', () => client.getState().code !== CONNECTED);
    await makeAnew('cut-anew', USES);
    for (const proxy of proxies) proxy.pass();
    await until('not connected', () => client.getState().code === CONNECTED);
    expect(await locks.mutex('cut-anew').tryAcquire()).toBeNull();
  });

  it('row 57: nor when another store removes and creates the node each time', async () => {
    const [locks, tidy] = [open(), open(undefined, true)];
    for (let round = 0; round < 10; round += 1) {
      // A lock node that was created again counts from the beginning.
      const [first, second] = round % 2 === 0 ? [locks, tidy] : [tidy, locks];
      const hold = await first.mutex('tidied').acquire();
      expect(await second.mutex('tidied').tryAcquire()).toBeNull();
      await hold.release();
    }
  });

  it('has the transaction that created its node as fence, however busy the members are', async () => {
    // The same member is asked, because another may lag behind.
    const stores = ensemble.members.map(({ address }) => ({
      locks: open(ensemble.client({ address, sessionMs: 5_000 })),
      look: ensemble.client({ address, sessionMs: 5_000 }),
    }));
    const seen = await Promise.all(
      stores.flatMap(({ locks, look }, at) =>
        Array.from({ length: 20 }, async (_, n) => {
          const name = `busy-${at}-${n % 10}`;
          const found: [bigint, bigint | null][] = [];
          for (let round = 0; round < 10; round += 1) {
            const hold = await locks.mutex(name).acquire();
            const nodes = (await nodesOf(look, name)).map((node) => `/locks/${name}/${node}`);
            const created = await Promise.all(nodes.map((path) => createdBy(look, path)));
            found.push([hold.fence, created.find((zxid) => zxid === hold.fence) ?? null]);
            await hold.release();
          }
          return found;
        }),
      ),
    );
    const fences = seen.flat();
    expect(fences.filter(([fence, created]) => fence !== created)).toEqual([]);
    expect(fences).toHaveLength(600);
  });
});

const connectionLoss = (): Error => Object.assign(new Error('connection loss'), { code: -4 });

describe('a claim whose reply was lost', () => {
  it('is refused like any other claim when its fence is below one that was seen before', async () => {
    const client = ensemble.client({ sessionMs: 5_000 });
    let lost = 0;
    const transaction = (): Transaction => {
      const made = client.transaction();
      const commit = made.commit.bind(made);
      made.commit = (answer) =>
        commit((error, results = []) => {
          const isClaim = results.some(({ path = '' }) => /\d{10}$/.test(path));
          answer(!error && isClaim && lost++ === 0 ? connectionLoss() : error, results);
        });
      return made;
    };
    const losing = new Proxy(client, {
      get(target, key) {
        const value: unknown = key === 'transaction' ? transaction : Reflect.get(target, key);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const store = zookeeperStore(losing);
    atTheEnd(() => store.close());
    const wanted = request('rebuilt', { id: 'a#1', wait: true, fenceAbove: 2n ** 62n });
    const ask = () => store.claim(wanted);
    await expect(ask()).rejects.toMatchObject({ applied: 'unknown' });
    await expect(ask()).rejects.toMatchObject({
      applied: 'no',
      message: expect.stringContaining('rebuilt?'),
    });
    await until('the node stays', async () => (await nodesOf(direct, 'rebuilt')).length === 0);
  });

  it('is refused when its mode differs, also when only the read of its queue was lost', async () => {
    const client = ensemble.client({ sessionMs: 5_000 });
    const [present, store] = [zookeeperStore(ensemble.client({ sessionMs: 5_000 })), zookeeperStore(client)];
    atTheEnd(async () => void (await Promise.all([present.close(), store.close()])));
    expect((await present.claim(request('mixed', { mode: permits(1, 3) }))).granted).toBe(true);
    const getChildren = client.getChildren.bind(client) as (...args: unknown[]) => void;
    client.getChildren = (...args: unknown[]): void => {
      client.getChildren = getChildren;
      const answer = args.pop() as (error: Error) => void;
      getChildren(...args, () => answer(connectionLoss()));
    };
    const wanted = request('mixed', { wait: true });
    await expect(store.claim(wanted)).rejects.toMatchObject({ applied: 'unknown' });
    await expect(store.claim(wanted)).rejects.toMatchObject({ code: 'MODE_MISMATCH' });
    await until('the node stays', async () => (await nodesOf(direct, 'mixed')).length === 1);
  });
});

describe('a queue that is almost full', () => {
  it('of several claims that come at once, as many stay as there is room for', async () => {
    const stores = [1, 2].map(() => zookeeperStore(ensemble.client({ sessionMs: 5_000 }), { queueMax: 2 }));
    atTheEnd(async () => void (await Promise.all(stores.map((store) => store.close()))));
    const ask = (n: number) => stores[n % 2]?.claim(request('bound', { id: `a#${n}`, wait: true }));
    await ask(0);
    const came = await Promise.allSettled([1, 2, 3, 4, 5, 6].map(ask));
    expect(came.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
    await until('not three', async () => (await nodesOf(direct, 'bound')).length === 3);
  });
});

describe('many stores over one client', () => {
  it('share its events, and work on when some of them close', async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on('warning', onWarning);
    atTheEnd(async () => void process.off('warning', onWarning));
    const client = ensemble.client({ sessionMs: 5_000 });
    const before = (client as unknown as EventEmitter).listenerCount('state');
    const stores = Array.from({ length: 30 }, (_, n) => zookeeperStore(client, { root: `/many/${n}` }));
    const locks = stores.map((store) => createLocks(store));
    const holds = await Promise.all(locks.map((each) => each.mutex('job').acquire()));
    expect((client as unknown as EventEmitter).listenerCount('state') - before).toBe(1);
    for (const each of locks.slice(0, 29)) await each.close({ drainMs: 0 });
    holds.at(-1)?.assertHeld();
    expect(await holds.at(-1)?.release()).toBe(true);
    await locks.at(-1)?.close();
    expect((client as unknown as EventEmitter).listenerCount('state')).toBe(before);
    expect(warnings).toEqual([]);
    // A store that is opened later begins again.
    const later = createLocks(zookeeperStore(client));
    await use(later, 'later', 1);
    await later.close();
  });
});
