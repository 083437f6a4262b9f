import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished, type TestContext } from 'vitest';
import type { Locks } from '../../../src/index.ts';
import { slotOf } from '../../../src/stores/redis/cluster/slots.ts';
import { nameAt, startClusterStage } from '../../redis/support/cluster-stage.ts';
import { LIBRARIES, type Library } from '../../support/clients/redis-clients.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { eventually, later, renewals, shortest } from '../../support/waiting/eventually.ts';

// One Cluster for all tests and both client libraries. The first tests use one slot each and run
// side by side. The later ones disturb the whole Cluster, and the last one breaks it.
const stage = await useStage(startClusterStage());

/** A slot that is moved from one node to another, step by step. */
class Move {
  readonly slot: number;
  readonly from: number;
  readonly to: number;

  private constructor(slot: number, from: number, to: number) {
    this.slot = slot;
    this.from = from;
    this.to = to;
  }

  /** The node answers from here on for the keys that it still has, and redirects other commands. */
  static async begin(name: string, onTestFinished: TestContext['onTestFinished']): Promise<Move> {
    const from = await stage.masterOf(name);
    // Not to the next node, which is killed at the end: its replica may not know of the move.
    const move = new Move(slotOf(`holdfast:${name}`), from, (from + 2) % 3);
    // Has no effect on a slot whose move was completed.
    onTestFinished(() => move.cancel());
    const { cluster } = stage;
    const [fromId, toId] = [await cluster.idOf(move.from), await cluster.idOf(move.to)];
    await cluster.admin(move.to).call('CLUSTER', 'SETSLOT', move.slot, 'IMPORTING', fromId);
    await cluster.admin(move.from).call('CLUSTER', 'SETSLOT', move.slot, 'MIGRATING', toId);
    return move;
  }

  async moveKeys(): Promise<void> {
    const { cluster } = stage;
    const from = cluster.admin(this.from);
    const keys = (await from.call('CLUSTER', 'GETKEYSINSLOT', this.slot, 1000)) as string[];
    const { host = '', port = 0 } = cluster.addresses[this.to] ?? {};
    if (keys.length > 0) await from.call('MIGRATE', host, port, '', 0, 10_000, 'KEYS', ...keys);
  }

  async complete(): Promise<void> {
    const id = await stage.cluster.idOf(this.to);
    for (const node of [this.to, 0, 1, 2])
      await stage.cluster.admin(node).call('CLUSTER', 'SETSLOT', this.slot, 'NODE', id);
  }

  async cancel(): Promise<void> {
    for (const node of [this.from, this.to])
      await stage.cluster.admin(node).call('CLUSTER', 'SETSLOT', this.slot, 'STABLE');
  }
}

const waits = (locks: Locks, name: string): Promise<void> =>
  eventually('a claim waits', async () => (await locks.inspect(name)).waiters.length === 1);

describe.concurrent.each(LIBRARIES)('row 33: a slot that moves, under %s', (library) => {
  it('keeps its holds, its queue and its fences through ASK, TRYAGAIN and MOVED', async ({
    onTestFinished,
  }) => {
    const name = nameAt(1, `moved ${library}`);
    const [a, b] = [await stage.locks(library, { ttlMs: 20_000 }), await stage.locks(library)];
    const hold = await a.mutex(name).acquire();
    const pending = later(b.mutex(name).acquire());
    await waits(a, name);
    const move = await Move.begin(name, onTestFinished);
    // A lock that is new to the slot, while no node has all of its keys.
    const other = a
      .mutex(`{holdfast:${name}}`)
      .tryAcquire()
      .catch(() => null);
    await sleep(300);
    await move.moveKeys();
    // The new node has all keys now, and the old one redirects every command.
    await hold.extend();
    await sleep(100);
    await move.complete();
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
    // The subscription has moved too: a waiter is woken, and does not find out by asking again.
    const handoffMs = async (): Promise<number> => {
      const first = await b.mutex(name).acquire();
      const again = later(a.mutex(name).acquire());
      await waits(a, name);
      await sleep(1_200);
      const releasedMs = performance.now();
      await first.release();
      await (await again).release();
      return performance.now() - releasedMs;
    };
    expect(await shortest(1_000, handoffMs)).toBeLessThan(1_000);
  });

  it('grants no claim that was given up while the slot was about to move', async ({ onTestFinished }) => {
    const name = nameAt(1, `given up ${library}`);
    const locks = await stage.locks(library);
    await (await locks.mutex(name).acquire()).release();
    const move = await Move.begin(name, onTestFinished);
    // The node has the counter of the slot and not the keys of these locks, so it tells every claim
    // and every release to try again. They do so, each at times of its own.
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
    await move.cancel();
    // Commands that were still on their way have arrived by then.
    await sleep(1_500);
    for (const each of names) expect((await locks.inspect(each)).holders).toEqual([]);
  });

  it('keeps its holds while it is open for longer than the TTL, and says why a claim fails', async ({
    onTestFinished,
  }) => {
    const name = nameAt(1, `open ${library}`);
    const locks = await stage.locks(library);
    // One hold without helper keys, one with a note, and one of several holders, renewed in one
    // call.
    const [noted, shared] = [`{holdfast:${name}} noted`, `{holdfast:${name}} shared`];
    const times = { ttlMs: 6_000 };
    const holds = [
      await locks.mutex(name).acquire(times),
      await locks.mutex(noted).acquire({ ...times, metadata: { a: 1 } }),
      await locks.readWriteLock(shared).read.acquire(times),
    ];
    const move = await Move.begin(name, onTestFinished);
    const claim = locks.mutex(`{holdfast:${name}} new`).acquire({ waitMs: 1_500 });
    await expect(claim).rejects.toMatchObject({
      code: 'STORE',
      applied: 'no',
      message: expect.stringContaining('TRYAGAIN'),
    });
    await expect(claim).rejects.toThrow('is being moved to another node');
    await sleep(7_500);
    for (const hold of holds) hold.assertHeld();
    // The same at the other node, once it has all keys.
    await move.moveKeys();
    await sleep(7_500);
    for (const hold of holds) hold.assertHeld();
    await move.complete();
    expect((await locks.inspect(noted)).holders[0]?.metadata).toEqual({ a: 1 });
    for (const hold of holds) expect(await hold.release()).toBe(true);
  }, 60_000);
});

describe('row 33: a Cluster with a failing master', () => {
  it('a slot whose new master stays silent is served by the old one once the move is cancelled', async () => {
    const pauseMs = 25_000;
    const names = LIBRARIES.map((library) => [library, nameAt(1, `silent ${library}`)] as const);
    const all = await Promise.all(
      names.map(async ([library, name]) => {
        const locks = await stage.locks(library, { commandMs: 2_500 });
        for (const node of [0, 1, 2])
          await (await locks.mutex(nameAt(node, 'connected')).acquire()).release();
        return { locks, name, move: await Move.begin(name, onTestFinished) };
      }),
    );
    const to = all[0]?.move.to ?? 0;
    // The node still talks to the other nodes, so no replica replaces it.
    await stage.cluster.admin(to).call('CLIENT', 'PAUSE', pauseMs);
    const continuesAtMs = performance.now() + pauseMs;
    for (const { locks, name } of all) {
      const sent = locks.mutex(name).tryAcquire();
      await expect(sent).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
    }
    for (const { move } of all)
      await stage.cluster.admin(move.from).call('CLUSTER', 'SETSLOT', move.slot, 'STABLE');
    for (const { locks, name } of all) await (await locks.mutex(name).acquire({ waitMs: 60_000 })).release();
    expect(performance.now()).toBeLessThan(continuesAtMs);
    // The tests after this one use the node.
    await stage.cluster.admin(to).ping();
  }, 90_000);

  it.each(LIBRARIES)(
    'a slot that no node serves is an error that says that nothing was done, under %s',
    async (library) => {
      // Not of a master that fails later: its replica may not know who serves the slot.
      const name = nameAt(0, `unserved ${library}`);
      const locks = await stage.locks(library);
      await (await locks.mutex(name).acquire()).release();
      const slot = slotOf(`holdfast:${name}`);
      const index = await stage.masterOf(name);
      let isServed = true;
      // The nodes wait as long as this before they serve again. One that is paused for longer is replaced.
      await stage.cluster.setNodeTimeout(4_000);
      const bringBack = async (): Promise<void> => {
        if (isServed) return;
        await stage.cluster.admin(index).call('CLUSTER', 'ADDSLOTS', slot);
        isServed = true;
        await stage.cluster.whole();
        await stage.cluster.setNodeTimeout();
      };
      onTestFinished(bringBack);
      isServed = false;
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
    },
  );

  it('a master that is paused answers nothing: its replica takes over, and commands follow', async () => {
    const name = nameAt(1, 'stopped');
    // Two of each library: one is closed while the node is paused, and one is used again.
    const open = (): Promise<Locks[]> =>
      Promise.all(LIBRARIES.map((library) => stage.locks(library, { waitMs: 60_000 })));
    const [closed, kept] = [await open(), await open()];
    const all = [...closed, ...kept];
    for (const locks of all) await (await locks.mutex(name).acquire()).release();
    const index = await stage.masterOf(name);
    const resume = (): void => stage.cluster.servers[index]?.kill('SIGCONT');
    onTestFinished(resume);
    await stage.cluster.setNodeTimeout(1_000);
    stage.cluster.servers[index]?.kill('SIGSTOP');
    await Promise.all(all.map(async (locks) => await (await locks.mutex(name).acquire()).release()));
    expect(await stage.masterOf(name)).not.toBe(index);
    // Its pending replies fail with the connection. That must not become an unhandled rejection.
    for (const locks of closed) await stage.leave(locks);
    // A late redirect of the resumed node must not make a claim be sent once more to the new
    // master.
    resume();
    await sleep(1_000);
    for (const locks of kept) {
      // The resumed node says for a moment that the Cluster is down.
      await eventually('the lock can be read', () => locks.inspect(name).then(Boolean, () => false));
      expect((await locks.inspect(name)).holders).toEqual([]);
    }
    await stage.cluster.setNodeTimeout();
  }, 120_000);

  it('a master that is killed: its replica keeps the hold, and the queue is served', async () => {
    const names = new Map(LIBRARIES.map((library) => [library, nameAt(2, `killed ${library}`)]));
    const first = names.values().next().value ?? '';
    const index = await stage.masterOf(first);
    const prepare = async (library: Library, name: string) => {
      const [a, b] = [await stage.locks(library), await stage.locks(library, { waitMs: 60_000 })];
      const hold = await a.mutex(name).acquire({ ttlMs: 15_000, renewEveryMs: 1_000 });
      const pending = later(b.mutex(name).acquire());
      await waits(a, name);
      return { a, hold, pending };
    };
    const all = await Promise.all([...names].map(([library, name]) => prepare(library, name)));
    // What the replica has not received yet is lost with the master, which is another row. WAIT
    // counts the replicas that have the last write of this connection, and so everything before it.
    const master = stage.cluster.admin(index);
    await master.set(`{holdfast:${first}}`, 'mark');
    expect(await master.call('WAIT', 1, 20_000)).toBe(1);
    await stage.cluster.setNodeTimeout(1_000);
    stage.cluster.servers[index]?.kill('SIGKILL');
    await stage.cluster.servers[index]?.exited();
    const check = async ({ a, hold, pending }: (typeof all)[number]): Promise<void> => {
      await renewals(a, 1);
      hold.assertHeld();
      expect(await hold.release()).toBe(true);
      const next = await pending;
      expect(next.fence).toBeGreaterThan(hold.fence);
      expect(await next.release()).toBe(true);
    };
    await Promise.all(all.map(check));
  }, 120_000);
});
