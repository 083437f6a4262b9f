import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import Redlock from 'redlock';
import { describe, expect, it } from 'vitest';
import { createLocks, openLocks } from '../../src/index.ts';
import { redlockStore } from '../../src/stores/redis/index.ts';
import { LIBRARIES } from '../support/clients/redis-clients.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { closeAndExit, EXITED_AT_ONCE } from '../support/process/close-and-exit.ts';
import { eventually, later, shortest } from '../support/waiting/eventually.ts';
import { heard, startRedlockStage } from './support/stage.ts';

const stage = await useStage(startRedlockStage());

const commandsAt = async (admin: Redis): Promise<number> =>
  Number(/total_commands_processed:(\d+)/.exec(await admin.info('stats'))?.[1]);

describe.each(LIBRARIES)('under %s', (library) => {
  it('acquires, waits, hands off, inspects and lists', async () => {
    const [a, b] = [
      await stage.process({ renewEveryMs: 800 }, library),
      await stage.process({ renewEveryMs: 800 }, library),
    ];
    const name = `smoke ${library}`;
    const hold = await a.locks.mutex(name).acquire({ metadata: { job: 7 } });
    expect(await heard(() => b.locks.mutex(name).tryAcquire())).toBeNull();
    const pending = later(b.locks.mutex(name).acquire());
    await sleep(100);
    const [holder] = (await heard(() => b.locks.inspect(name))).holders;
    expect(holder).toMatchObject({ id: hold.id, fence: hold.fence, metadata: { job: 7 } });
    await heard(() => hold.extend());
    await hold.release();
    const next = await pending;
    expect(next.fence).toBeGreaterThan(hold.fence);
    const listed = await heard(async () => {
      const names = [];
      for await (const view of a.locks.list(name)) names.push(view.name);
      return names;
    });
    expect(listed).toEqual([name]);
    expect(await heard(() => b.locks.evict(name, { id: next.id }))).toBe(true);
    await eventually('the holder is notified', () => next.signal.aborted);
    await eventually('nothing is left', async () => (await stage.keys(name)) === 0);
  });
});

it('a waiter is not woken by its own vote of a minority, which it takes back', async () => {
  const [a, b] = [await stage.process(), await stage.process()];
  const hold = await a.locks.mutex('own vote').acquire();
  const [first, , , , last] = stage.admins as [Redis, Redis, Redis, Redis, Redis];
  // The last node has lost the hold, grants the waiter's vote, and answers after the majority.
  await eventually('every node has the hold', async () => (await stage.keys('own vote')) === 5);
  await last.del('holdfast:own vote');
  b.proxies[4]?.delay(30);
  const pending = later(b.locks.mutex('own vote').acquire());
  await sleep(500);
  const before = await commandsAt(first);
  await sleep(1_500);
  // Woken by its own vote, it would ask every 30 ms.
  expect((await commandsAt(first)) - before).toBeLessThan(60);
  await hold.release();
  await (await pending).release();
});

it('a waiter of another process is woken by a release, and not by its own timer', async () => {
  const [a, b] = [await stage.process(), await stage.process()];
  const handoffMs = async (): Promise<number> => {
    const hold = await a.locks.mutex('woken').acquire();
    const pending = later(b.locks.mutex('woken').acquire());
    await sleep(150);
    const startedMs = performance.now();
    await hold.release();
    const next = await pending;
    const tookMs = performance.now() - startedMs;
    await next.release();
    return tookMs;
  };
  // Its own timer would fire after three seconds.
  expect(await shortest(500, handoffMs)).toBeLessThan(500);
});

it('a hundred waiters of one process send almost no commands while the lock is held', async () => {
  const [a, b] = [await stage.process(), await stage.process()];
  const hold = await a.locks.mutex('quiet').acquire();
  let served = 0;
  const all = later(
    Promise.all(
      Array.from({ length: 100 }, () =>
        b.locks.mutex('quiet').run(() => {
          served += 1;
        }),
      ),
    ),
  );
  const admin = stage.admins[0] as Redis;
  // When all waiters have asked, and no command is pending.
  let [before, earlier] = [await commandsAt(admin), 0];
  while (before - earlier > 12) {
    earlier = before;
    await sleep(500);
    before = await commandsAt(admin);
  }
  await sleep(2_000);
  // Our own command, and a claim or two of the first waiter: a few commands inside of its script. A hundred
  // waiters that ask would send hundreds.
  expect((await commandsAt(admin)) - before).toBeLessThan(60);
  await hold.release();
  await all;
  expect(served).toBe(100);
});

it('readers hold together, each with its own fence, and a writer waits for all of them', async () => {
  const processes = await Promise.all([1, 2, 3].map(() => stage.process()));
  const holds = await Promise.all(
    processes.flatMap(({ locks }) => [1, 2, 3].map(() => locks.readWriteLock('shared').read.acquire())),
  );
  expect(new Set(holds.map((hold) => hold.fence)).size).toBe(9);
  const writer = processes[0]?.locks.readWriteLock('shared').write;
  expect(await heard(async () => writer?.tryAcquire())).toBeNull();
  const pending = writer && later(writer.acquire());
  const view = await heard(async () => processes[1]?.locks.inspect('shared'));
  expect(view?.holders).toHaveLength(9);
  for (const hold of holds) expect(await hold.release()).toBe(true);
  const hold = await pending;
  for (const reader of holds) expect(hold?.fence).toBeGreaterThan(reader.fence);
  await hold?.release();
});

it('readers of one process that wait for a writer are granted together', async () => {
  const [a, b] = [await stage.process(), await stage.process()];
  const enter = async (): Promise<number> => {
    const writer = await a.locks.readWriteLock('together').write.acquire();
    const readers = [1, 2, 3].map(() => later(b.locks.readWriteLock('together').read.acquire()));
    await sleep(300);
    const startedMs = performance.now();
    await writer.release();
    const holds = await Promise.all(readers);
    const tookMs = performance.now() - startedMs;
    for (const hold of holds) await hold.release();
    return tookMs;
  };
  // No release wakes the other readers: by their own timers they would ask after three seconds.
  expect(await shortest(1_000, enter)).toBeLessThan(1_000);
});

it('permits, which a majority cannot count, are refused when the primitive is made', async () => {
  const { locks } = await stage.process();
  const unsupported = expect.objectContaining({ code: 'UNSUPPORTED' });
  expect(() => locks.semaphore('s', { permits: 2 })).toThrow(unsupported);
  expect(() => locks.rateLimit('s', { permits: 2, perMs: 1_000 })).toThrow(unsupported);
});

it('a wait that is aborted at any moment, also during the grant, leaves nothing behind', async () => {
  const { locks } = await stage.process();
  await (await locks.mutex('warm').acquire()).release();
  for (let n = 0; n < 40; n += 1) {
    const controller = new AbortController();
    const pending = locks.mutex(`aborted ${n % 4}`).acquire({ signal: controller.signal });
    setTimeout(() => controller.abort(new Error('enough')), n / 10);
    await pending.then(
      (hold) => hold.release(),
      (error: Error) => expect(error.message).toBe('enough'),
    );
  }
  await eventually('nothing is left', async () => {
    const left = await Promise.all([0, 1, 2, 3].map((n) => stage.keys(`aborted ${n}`)));
    return left.every((count) => count === 0);
  });
});

it('the same server given twice is refused, and nothing stays behind', async () => {
  const [first = '', second = ''] = stage.nodes.urls;
  const clients = [first, second, first].map((url) => new Redis(url));
  const locks = createLocks(redlockStore(clients));
  let refused: unknown = null;
  // A majority of different servers may answer before the second client of the same server.
  await eventually('it is found out', async () => {
    const outcome = locks.mutex('twice').acquire();
    refused = await outcome.then(
      (hold) => hold.release().then(() => null),
      (error: unknown) => error,
    );
    return refused !== null;
  });
  expect(refused).toMatchObject({ code: 'INVALID_ARGUMENT', message: expect.stringContaining('are one') });
  await eventually('nothing stays behind', async () => (await stage.keys('twice')) === 0);
  await locks.close();
  for (const client of clients) client.disconnect();
});

it('clients and options that cannot be used are refused before anything is sent', () => {
  const client = new Redis(stage.nodes.urls[0] ?? '', { lazyConnect: true });
  const invalid = expect.objectContaining({ code: 'INVALID_ARGUMENT' });
  expect(() => redlockStore([])).toThrow(invalid);
  expect(() => redlockStore([client, client])).toThrow(invalid);
  expect(() => redlockStore([{} as never])).toThrow(invalid);
  for (const drift of [-1, 0.9, Number.NaN, '1' as never])
    expect(() => redlockStore([client], { drift })).toThrow(invalid);
  expect(() => redlockStore([client], { prefix: 'x'.repeat(300) })).toThrow(invalid);
  expect(() => redlockStore([client], { driftFactor: 0.01 } as never)).toThrow('did you mean drift?');
});

it('a greater drift ends holds earlier', async () => {
  const [usual, careful] = [await stage.process(), await stage.process({ drift: 0.2 })];
  const one = await usual.locks.mutex('drift 1').acquire({ ttlMs: 60_000 });
  const two = await careful.locks.mutex('drift 2').acquire({ ttlMs: 60_000 });
  expect(one.remainingMs).toBeGreaterThan(50_000);
  // 20 % and 2 ms less.
  expect(two.remainingMs).toBeLessThanOrEqual(47_998);
  await Promise.all([one.release(), two.release()]);
});

describe('npm redlock on the same nodes', () => {
  it('excludes us and is excluded by us, in both modes', async () => {
    const { locks } = await stage.process({ prefix: '' });
    const clients = stage.nodes.urls.map((url) => new Redis(url));
    const peer = new Redlock(clients, { retryCount: 0 });
    const { read, write } = locks.readWriteLock('with redlock');
    for (const mode of [locks.mutex('with redlock'), read, write]) {
      const hold = await heard(() => mode.tryAcquire());
      expect(hold).not.toBeNull();
      await expect(peer.acquire(['with redlock'], 30_000)).rejects.toThrow();
      await hold?.release();
      await eventually('it is free everywhere', async () => (await stage.keys('with redlock', '')) === 0);
      const theirs = await peer.acquire(['with redlock'], 30_000);
      expect(await heard(() => mode.tryAcquire())).toBeNull();
      const [holder] = (await heard(() => locks.inspect('with redlock'))).holders;
      expect(holder).toMatchObject({ id: theirs.value, owner: null, fence: null });
      await theirs.release();
      await eventually('it is free everywhere', async () => (await stage.keys('with redlock', '')) === 0);
    }
    for (const client of clients) client.disconnect();
  });

  it('is followed by our waiter soon after its release, although that sends no message', async () => {
    const { locks } = await stage.process({ prefix: '' });
    const clients = stage.nodes.urls.map((url) => new Redis(url));
    const theirs = await new Redlock(clients, { retryCount: 0 }).acquire(['polite'], 30_000);
    const pending = later(locks.mutex('polite').acquire());
    await sleep(200);
    await theirs.release();
    const startedMs = performance.now();
    await (await pending).release();
    expect(performance.now() - startedMs).toBeLessThan(12_000);
    for (const client of clients) client.disconnect();
  });
});

describe('opened from a URL', () => {
  const hosts = (): string => stage.nodes.servers.map(({ port }) => `127.0.0.1:${port}`).join(',');

  it('works, and closing the locks closes the clients', async () => {
    const admin = stage.admins[2] as Redis;
    const connections = async (): Promise<number> =>
      String(await admin.call('CLIENT', 'LIST')).split('\n').length;
    const before = await connections();
    const locks = await openLocks(`redlock://${hosts()}`);
    const hold = await locks.mutex('from a URL').acquire();
    expect(await stage.keys('from a URL')).toBeGreaterThanOrEqual(3);
    await hold.release();
    await locks.close();
    await eventually('they are gone', async () => (await connections()) <= before);
  });

  it('a process that closes its locks continues, and exits by itself', async () => {
    expect(await closeAndExit(`redlock://${hosts()}`)).toBe(EXITED_AT_ONCE);
  });

  it.each(['redlock://', 'redlock://a,,b', 'redlock://a,b,a', 'redlock://a,b/x?y'])(
    'refuses %s',
    async (url) => {
      await expect(openLocks(url)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    },
  );
});
