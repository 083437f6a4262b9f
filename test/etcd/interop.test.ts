import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createLocks, type Locks } from '../../src/index.ts';
import { etcdStore } from '../../src/stores/etcd/index.ts';
import { startEtcdctl } from '../support/servers/etcd.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { startOneMember } from './support/one-member.ts';

/**
 * `etcdctl lock` uses Go's `concurrency.Mutex`. With the prefix '' it shares locks with the store.
 */
const { cluster, atTheEnd } = await startOneMember();

function open(prefix = ''): Locks {
  const locks = createLocks(etcdStore(cluster.client(), { prefix }), { waitMs: 20_000 });
  atTheEnd(() => locks.close({ drainMs: 0 }));
  return locks;
}

interface Theirs {
  /** Resolves to the key when `etcdctl lock` has the lock. */
  readonly held: Promise<string>;
  readonly isHeld: () => boolean;
  release(): Promise<void>;
  /** Kills the process, so that its lease expires. */
  kill(): void;
}

function lockWithEtcdctl(name: string, ...options: string[]): Theirs {
  const child: ChildProcess = startEtcdctl(cluster.addresses, ['lock', name, ...options]);
  let isHeld = false;
  const held = new Promise<string>((resolve) => {
    child.stdout?.once('data', (data: Buffer) => {
      isHeld = true;
      resolve(data.toString().trim());
    });
  });
  const ended = new Promise<void>((resolve) => void child.once('close', () => resolve()));
  atTheEnd(() => void child.kill('SIGKILL'));
  return {
    held,
    isHeld: () => isHeld,
    release: async () => {
      child.kill('SIGINT');
      await ended;
    },
    kill: () => void child.kill('SIGKILL'),
  };
}

/** Resolves when this many wait: etcdctl needs some time to start. */
const waitersOf = (locks: Locks, name: string, count: number): Promise<void> =>
  eventually(`${count} wait`, async () => (await locks.inspect(name)).waiters.length === count);

describe.concurrent('etcdctl lock and a Holdfast mutex', () => {
  it('exclude each other when they hold', async () => {
    const locks = open();
    const theirs = lockWithEtcdctl('theirs-first');
    expect(await theirs.held).toMatch(/^theirs-first\/[0-9a-f]+$/);
    expect(await locks.mutex('theirs-first').tryAcquire()).toBeNull();
    const waiting = later(locks.mutex('theirs-first').acquire());
    await waitersOf(locks, 'theirs-first', 1);
    await theirs.release();
    const hold = await waiting;
    const again = lockWithEtcdctl('theirs-first');
    await waitersOf(locks, 'theirs-first', 1);
    await sleep(200);
    expect(again.isHeld()).toBe(false);
    await hold.release();
    await again.held;
  });

  it('wait in one queue, first come, first served', async () => {
    const locks = open();
    const order: string[] = [];
    const hold = await locks.mutex('one-queue').acquire();
    const theirs = lockWithEtcdctl('one-queue');
    void theirs.held.then(() => order.push('theirs'));
    await waitersOf(locks, 'one-queue', 1);
    const ours = locks
      .mutex('one-queue')
      .acquire()
      .then((next) => {
        order.push('ours');
        return next;
      });
    await waitersOf(locks, 'one-queue', 2);
    await hold.release();
    await theirs.held;
    await sleep(200);
    expect(order).toEqual(['theirs']);
    await theirs.release();
    await (await ours).release();
    expect(order).toEqual(['theirs', 'ours']);
  });

  it('a Holdfast reader and a Holdfast writer exclude etcdctl too', async () => {
    const locks = open();
    const lock = locks.readWriteLock('readers');
    const [one, two] = [await lock.read.acquire(), await lock.read.acquire()];
    const theirs = lockWithEtcdctl('readers');
    await waitersOf(locks, 'readers', 1);
    await one.release();
    await sleep(300);
    expect(theirs.isHeld()).toBe(false);
    expect(await lock.read.tryAcquire()).toBeNull();
    await two.release();
    await theirs.held;
    expect(await lock.write.tryAcquire()).toBeNull();
  });

  it('cannot share a lock with a Holdfast semaphore', async () => {
    const theirs = lockWithEtcdctl('kinds');
    await theirs.held;
    await expect(open().semaphore('kinds', { permits: 2 }).acquire()).rejects.toMatchObject({
      code: 'MODE_MISMATCH',
    });
  });

  it('one that dies keeps the lock until its lease ends', async () => {
    const locks = open();
    const theirs = lockWithEtcdctl('dies', '--ttl=2');
    await theirs.held;
    const waiting = later(locks.mutex('dies').acquire());
    theirs.kill();
    const hold = await waiting;
    expect(hold.fence).toBeGreaterThan(0n);
  });

  it('is shown with what is known of it, and exactly that claim can be evicted', async () => {
    const locks = open();
    const theirs = lockWithEtcdctl('shown');
    const key = await theirs.held;
    const [holder] = (await locks.inspect('shown')).holders;
    expect(holder).toMatchObject({
      owner: null,
      mode: { kind: 'exclusive' },
      heldForMs: null,
      metadata: null,
    });
    expect(holder?.id).toMatch(new RegExp(`^${key.split('/')[1]}@\\d+$`));
    expect(holder?.expiresInMs).toBeGreaterThan(0);
    // The same key with another create revision is another lock of the same session.
    const wrong = `${key.split('/')[1]}@${(holder?.fence ?? 0n) - 1n}`;
    expect(await locks.evict('shown', { id: wrong })).toBe(false);
    expect(await locks.evict('shown', { id: holder?.id ?? '' })).toBe(true);
    await (await locks.mutex('shown').acquire()).release();
  });

  it('names with a slash are separate locks: a lock never sees the locks below it', async () => {
    const locks = open();
    const theirs = lockWithEtcdctl('above/below');
    await theirs.held;
    const hold = await locks.mutex('above').tryAcquire();
    expect(hold).not.toBeNull();
    const waiting = await locks.mutex('above').tryAcquire();
    expect(waiting).toBeNull();
    const below = await locks.mutex('above/below').tryAcquire();
    expect(below).not.toBeNull();
    const names: string[] = [];
    for await (const view of locks.list('above')) names.push(view.name);
    expect(names.sort()).toEqual(['above', 'above/below']);
  });

  it('with the default prefix the two do not share locks', async () => {
    const theirs = lockWithEtcdctl('apart');
    await theirs.held;
    expect(await open('holdfast/').mutex('apart').tryAcquire()).not.toBeNull();
  });
});
