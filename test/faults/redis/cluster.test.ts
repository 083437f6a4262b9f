import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { slotOf } from '../../../src/stores/redis/cluster/slots.ts';
import { type ClusterStage, startClusterStage } from '../../redis/support/cluster-stage.ts';
import { eventually, later, shortest } from '../../support/patience.ts';
import { LIBRARIES } from '../../support/redis-clients.ts';

/** Begins to move a slot: from here on, its node answers for what it still has and sends everybody else on. */
async function beginMove({ cluster }: ClusterStage, slot: number, from: number, to: number): Promise<void> {
  // Whatever becomes of the test: what was moved to its end does not feel this.
  onTestFinished(async () => {
    for (const node of [from, to]) await cluster.admin(node).call('CLUSTER', 'SETSLOT', slot, 'STABLE');
  });
  await cluster.admin(to).call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', await cluster.idOf(from));
  await cluster.admin(from).call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', await cluster.idOf(to));
}

async function moveKeys({ cluster }: ClusterStage, slot: number, from: number, to: number): Promise<void> {
  const keys = (await cluster.admin(from).call('CLUSTER', 'GETKEYSINSLOT', slot, 1000)) as string[];
  const { host = '', port = 0 } = cluster.addresses[to] ?? {};
  if (keys.length > 0) await cluster.admin(from).call('MIGRATE', host, port, '', 0, 10_000, 'KEYS', ...keys);
}

async function endMove({ cluster }: ClusterStage, slot: number, to: number): Promise<void> {
  const id = await cluster.idOf(to);
  for (const node of [to, 0, 1, 2]) await cluster.admin(node).call('CLUSTER', 'SETSLOT', slot, 'NODE', id);
}

describe.each(LIBRARIES)('row 33, under %s', (library) => {
  // One Cluster for all of these, each with a lock of another master; the last of them breaks it.
  let stage: ClusterStage;
  beforeAll(async () => {
    stage = await startClusterStage();
  });
  afterAll(async () => {
    await stage[Symbol.asyncDispose]();
  });

  /** A lock's name whose slot this node serves at first. */
  const nameAt = (node: number, word = 'lock'): string => {
    for (let n = 0; ; n += 1) {
      const name = `${word} ${n}`;
      if (Math.floor(slotOf(`holdfast:${name}`) / 5462) === node) return name;
    }
  };

  it('a slot that moves (ASK, TRYAGAIN, MOVED) keeps its holds, its line and its fences', async () => {
    const name = nameAt(1, 'moved');
    const [a, b] = [await stage.locks(library, { ttlMs: 20_000 }), await stage.locks(library)];
    const slot = await stage.slotOf(`holdfast:${name}`);
    const from = await stage.masterOf(name);
    // To the one that lives to the end: a replica need not know of a move when it is promoted.
    const to = (from + 2) % 3;
    const hold = await a.mutex(name).acquire();
    const pending = later(b.mutex(name).acquire());
    await eventually('it waits', async () => (await a.inspect(name)).waiters.length === 1);
    await beginMove(stage, slot, from, to);
    // A lock that is new to the slot, while nobody has all of its keys.
    const other = a
      .mutex(`{holdfast:${name}}`)
      .tryAcquire()
      .catch(() => null);
    await sleep(300);
    await moveKeys(stage, slot, from, to);
    // All keys are there now, and the old node sends everybody on.
    await hold.extend();
    await sleep(100);
    await endMove(stage, slot, to);
    await (await other)?.release();
    hold.assertHeld();
    const startedMs = performance.now();
    await hold.extend();
    expect(await hold.release()).toBe(true);
    const next = await pending;
    // Long before its own hold would have ended by itself.
    expect(performance.now() - startedMs).toBeLessThan(10_000);
    expect(next.fence).toBeGreaterThan(hold.fence);
    await next.release();
    // The wake-up has moved with it: nobody waits for the safety net.
    const handOver = async (): Promise<number> => {
      const first = await b.mutex(name).acquire();
      const again = later(a.mutex(name).acquire());
      await eventually('it waits', async () => (await a.inspect(name)).waiters.length === 1);
      await sleep(1_200);
      const releasedMs = performance.now();
      await first.release();
      await (await again).release();
      return performance.now() - releasedMs;
    };
    expect(await shortest(1_000, handOver)).toBeLessThan(1_000);
  });

  it('a claim that was given up while its slot was about to move is granted to nobody afterwards', async () => {
    const name = nameAt(1, 'given up');
    const locks = await stage.locks(library);
    await (await locks.mutex(name).acquire()).release();
    const slot = await stage.slotOf(`holdfast:${name}`);
    const from = await stage.masterOf(name);
    const to = (from + 2) % 3;
    await beginMove(stage, slot, from, to);
    // The counter of the slot is there and their own keys are not, so they are told to try again, and do so: each at times of its own, as do their releases.
    const names = Array.from({ length: 8 }, (_, n) => `{holdfast:${name}} ${n}`);
    const claims: Promise<unknown>[] = [];
    for (const each of names) {
      claims.push(
        expect(locks.mutex(each).acquire({ waitMs: 1_000 })).rejects.toMatchObject({ code: 'STORE' }),
      );
      await sleep(13);
    }
    await Promise.all(claims);
    await sleep(250);
    // Nobody moves it after all.
    for (const node of [from, to]) await stage.cluster.admin(node).call('CLUSTER', 'SETSLOT', slot, 'STABLE');
    // Those that were still on their way have arrived by then.
    await sleep(1_500);
    for (const each of names) expect((await locks.inspect(each)).holders).toEqual([]);
  });

  it('a Cluster that is down is an error that says that nothing was done, and works again when it is up', async () => {
    const name = nameAt(1, 'moved');
    const locks = await stage.locks(library);
    await (await locks.mutex(name).acquire()).release();
    const slot = await stage.slotOf(`holdfast:${name}`);
    const index = await stage.masterOf(name);
    let isThere = true;
    // As long as this do the nodes wait before they serve again.
    await stage.cluster.setNodeTimeout(1_000);
    const bringBack = async (): Promise<void> => {
      if (isThere) return;
      await stage.cluster.admin(index).call('CLUSTER', 'ADDSLOTS', slot);
      isThere = true;
      await stage.cluster.whole();
      await stage.cluster.setNodeTimeout();
    };
    onTestFinished(bringBack);
    isThere = false;
    for (const node of [0, 1, 2])
      await stage.cluster
        .admin(node)
        .call('CLUSTER', 'DELSLOTS', slot)
        .catch(() => {});
    await expect(locks.mutex(name).acquire({ waitMs: 1_200 })).rejects.toMatchObject({
      code: 'STORE',
      applied: 'no',
      message: expect.stringContaining('CLUSTERDOWN'),
    });
    await bringBack();
    const hold = await locks.mutex(name).acquire({ waitMs: 40_000 });
    await hold.release();
  });

  it('a master that is stopped answers nothing: others take over, and commands follow', async () => {
    const name = nameAt(1);
    const both = [
      await stage.locks(library, { waitMs: 60_000 }),
      await stage.locks(library, { waitMs: 60_000 }),
    ] as const;
    for (const locks of both) await (await locks.mutex(name).acquire()).release();
    const index = await stage.masterOf(name);
    const wake = (): void => stage.cluster.servers[index]?.kill('SIGCONT');
    onTestFinished(wake);
    await stage.cluster.setNodeTimeout(1_000);
    stage.cluster.servers[index]?.kill('SIGSTOP');
    await Promise.all(both.map(async (locks) => await (await locks.mutex(name).acquire()).release()));
    expect(await stage.masterOf(name)).not.toBe(index);
    // What the stopped node owes is nobody's any more: neither does its loss with the connection trouble anybody (an unhandled rejection would),
    await stage.leave(both[0]);
    // nor does a late answer that sends us on make us ask the new node a second time.
    wake();
    await sleep(1_000);
    // The woken node says for a moment that the Cluster is down.
    await eventually('it is read', () => both[1].inspect(name).then(Boolean, () => false));
    expect((await both[1].inspect(name)).holders).toEqual([]);
    await stage.cluster.setNodeTimeout();
  }, 120_000);

  it('a master that is killed: the hold is kept by the replica that takes over, and the line goes on', async () => {
    const name = nameAt(2);
    const [a, b] = [await stage.locks(library), await stage.locks(library, { waitMs: 60_000 })];
    const hold = await a.mutex(name).acquire({ ttlMs: 15_000, renewEveryMs: 1_000 });
    const pending = later(b.mutex(name).acquire());
    await eventually('it waits', async () => (await a.inspect(name)).waiters.length === 1);
    const index = await stage.masterOf(name);
    // What the replica has not received yet is lost with the master; that is another row. The wait is for one's own last write, and with it for everything before.
    const master = stage.cluster.admin(index);
    await master.set(`{holdfast:${name}}`, 'mark');
    expect(await master.call('WAIT', 1, 20_000)).toBe(1);
    await stage.cluster.setNodeTimeout(1_000);
    stage.cluster.servers[index]?.kill('SIGKILL');
    await stage.cluster.servers[index]?.exited();
    let renewed = 0;
    a.on('renewed', () => {
      renewed += 1;
    });
    await eventually('it is renewed by the new master', () => renewed > 0, 15_000);
    hold.assertHeld();
    expect(await hold.release()).toBe(true);
    const next = await pending;
    expect(next.fence).toBeGreaterThan(hold.fence);
    expect(await next.release()).toBe(true);
  }, 120_000);
});
