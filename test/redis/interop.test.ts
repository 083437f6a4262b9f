import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { Mutex } from 'redis-semaphore';
import Redlock from 'redlock';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Hold, Lockable } from '../../src/index.ts';
import { install } from '../../src/torture/servers/find.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { startStage } from './support/stage.ts';

/**
 * A lock of another program on the same key. `take` resolves to its release, or to null if the lock is held.
 */
interface Peer {
  readonly name: string;
  take(key: string): Promise<(() => Promise<unknown>) | null>;
}

const stage = await useStage(startStage());
let client: Redis;
let python: Python;
beforeAll(async () => {
  client = new Redis(stage.server.url);
  python = await startPython(stage.server.port);
});
afterAll(async () => {
  python.stop();
  client.disconnect();
});

/** The Lock of redis-py, in a Python process that reads one command from each line. */
const PYTHON = `
import sys, redis
r = redis.Redis(port=int(sys.argv[1]))
locks = {}
print('ready', flush=True)
for line in sys.stdin:
    verb, key = line.split()
    if verb == 'take':
        lock = r.lock(key, timeout=30)
        got = lock.acquire(blocking=False)
        if got: locks[key] = lock
        print('yes' if got else 'no', flush=True)
    else:
        locks.pop(key).release()
        print('released', flush=True)
`;

interface Python {
  ask(line: string): Promise<string>;
  stop(): void;
}

async function startPython(port: number): Promise<Python> {
  const start = async (): Promise<Python | null> => {
    const child = spawn('/usr/bin/python3', ['-c', PYTHON, `${port}`], { stdio: ['pipe', 'pipe', 'ignore'] });
    const lines: string[] = [];
    let wake: (() => void) | null = null;
    let isOver = false;
    createInterface({ input: child.stdout }).on('line', (line) => {
      lines.push(line);
      wake?.();
    });
    for (const event of ['exit', 'error']) {
      child.once(event, () => {
        isOver = true;
        wake?.();
      });
    }
    const next = async (): Promise<string | undefined> => {
      while (lines.length === 0 && !isOver) await new Promise<void>((resolve) => (wake = resolve));
      return lines.shift();
    };
    if ((await next()) !== 'ready') return null;
    return {
      async ask(line) {
        child.stdin.write(`${line}\n`);
        const answer = await next();
        if (answer === undefined) throw new Error('Python has ended');
        return answer;
      },
      stop: () => void child.kill(),
    };
  };
  const found = await start();
  if (found !== null) return found;
  const failure = install(['python3', 'python3-redis']);
  const installed = await start();
  if (installed === null)
    throw new Error(`python3 with redis-py is needed: apt-get install python3-redis. ${failure ?? ''}`);
  return installed;
}

const PEERS: readonly Peer[] = [
  {
    name: "redis-py's Lock",
    take: async (key) =>
      (await python.ask(`take ${key}`)) === 'yes' ? () => python.ask(`release ${key}`) : null,
  },
  {
    name: 'redlock 5',
    async take(key) {
      const redlock = new Redlock([client], { retryCount: 0 });
      const lock = await redlock.acquire([key], 30_000).catch(() => null);
      return lock === null ? null : () => lock.release();
    },
  },
  {
    name: "redis-semaphore's Mutex",
    async take(key) {
      // The package puts `mutex:` before the name.
      const mutex = new Mutex(client as never, key.slice('mutex:'.length), {
        // With one millisecond, it may be over before the only attempt.
        acquireTimeout: 10_000,
        acquireAttemptsLimit: 1,
        lockTimeout: 30_000,
      });
      return (await mutex.tryAcquire()) ? () => mutex.release() : null;
    },
  },
];

describe.each(PEERS)('$name on the same key', (peer) => {
  it('excludes us and is excluded by us, in every mode', async () => {
    const locks = await stage.locks('ioredis', stage.server.url, { prefix: '' });
    const key = `mutex:every:${peer.name.replaceAll(/\W/g, '')}`;
    const modes: Array<Pick<Lockable, 'tryAcquire'>> = [
      locks.mutex(key),
      locks.readWriteLock(key).read,
      locks.readWriteLock(key).write,
      locks.semaphore(key, { permits: 3 }),
    ];
    for (const mode of modes) {
      const hold = await mode.tryAcquire();
      expect(hold).not.toBeNull();
      expect(await peer.take(key)).toBeNull();
      await hold?.release();
      const theirs = await peer.take(key);
      expect(theirs).not.toBeNull();
      expect(await mode.tryAcquire()).toBeNull();
      const [holder] = (await locks.inspect(key)).holders;
      expect(holder).toMatchObject({ owner: null, fence: null, heldForMs: null });
      expect(holder?.expiresInMs).toBeGreaterThan(20_000);
      await theirs?.();
    }
  });

  it('is not granted the lock while our claims wait, also not during a handoff', async () => {
    const locks = await stage.locks('ioredis', stage.server.url, { prefix: '' });
    const key = `mutex:line:${peer.name.replaceAll(/\W/g, '')}`;
    const waiters = 8;
    let holders = 0;
    let stolen = 0;
    let isOver = false;
    const first = await locks.mutex(key).acquire();
    const work = async (mode: Lockable): Promise<void> => {
      await mode.run(async () => {
        holders += 1;
        await sleep(15);
        holders -= 1;
      });
    };
    const { read, write } = locks.readWriteLock(key);
    const all = later(
      Promise.all(
        Array.from({ length: waiters }, (_, n) =>
          work(n % 3 === 0 ? read : n % 3 === 1 ? write : locks.mutex(key)),
        ),
      ),
    );
    await eventually('all wait', async () => (await locks.inspect(key)).waiters.length === waiters);
    const thief = (async () => {
      while (!isOver) {
        const theirs = await peer.take(key);
        if (theirs === null) continue;
        if (holders > 0 || !isOver) stolen += 1;
        await theirs();
      }
    })();
    await sleep(50);
    await first.release();
    await all;
    isOver = true;
    await thief;
    // The other program may get the lock once more, after our last release.
    expect(stolen).toBeLessThanOrEqual(1);
    expect(holders).toBe(0);
  });

  it('is followed by our first waiter soon after its release, although that sends no message', async () => {
    const locks = await stage.locks('node-redis', stage.server.url, { prefix: '' });
    const key = `mutex:polite:${peer.name.replaceAll(/\W/g, '')}`;
    const theirs = await peer.take(key);
    const pending: Promise<Hold> = later(locks.mutex(key).acquire());
    await eventually('it waits', async () => (await locks.inspect(key)).waiters.length === 1);
    await theirs?.();
    const startedMs = performance.now();
    const hold = await pending;
    // Long before its lock would have expired.
    expect(performance.now() - startedMs).toBeLessThan(15_000);
    await hold.release();
  });
});

it('a late release by another program does not remove our hold', async () => {
  const locks = await stage.locks('ioredis', stage.server.url, { prefix: '' });
  await client.set('stale', 'theirs', 'PX', 100, 'NX');
  const hold = await locks.mutex('stale').acquire();
  const script =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
  expect(await client.eval(script, 1, 'stale', 'theirs')).toBe(0);
  hold.assertHeld();
  expect(await locks.evict('stale', { id: 'theirs' })).toBe(false);
  await hold.release();
});

it('the lock of another program can be evicted by the id that inspect shows', async () => {
  const locks = await stage.locks('ioredis', stage.server.url, { prefix: '' });
  await client.set('forgotten', 'by a program that died');
  const [holder] = (await locks.inspect('forgotten')).holders;
  expect(holder).toMatchObject({ id: 'by a program that died', expiresInMs: null });
  expect(await locks.evict('forgotten', { id: holder?.id ?? '' })).toBe(true);
  await (await locks.mutex('forgotten').acquire()).release();
});
