import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Verrou } from '@verrou/core';
import { redisStore as verrouStore } from '@verrou/core/drivers/redis';
import { Redis } from 'ioredis';
import { Mutex } from 'redis-semaphore';
import Redlock from 'redlock';
import { createLock, IoredisAdapter } from 'redlock-universal';
import { expect, it, vi } from 'vitest';
import { createLocks } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { startStage } from '../redis/support/stage.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { eventually } from '../support/waiting/eventually.ts';

/** Some renew only after four fifths of it: the rest is what a stalled machine may take. */
const TTL_MS = 8_000;
/** Without a renewal, nothing is held any more after this. */
const BEYOND_TTL_MS = 1.5 * TTL_MS;
/** How long the commands of one waiter are counted. */
const WAIT_MS = 5_000;

/** A section that runs under the lock until `end`. */
interface Section {
  /** Whether the library has notified the section that the lock is lost. */
  isNotified(): boolean;
  end(): void;
}

/** A library, in the way its own page recommends for a section that may take long. */
interface Contender {
  readonly name: string;
  /** The column of the README's table. */
  readonly column: string;
  /** The key in Redis of a lock. */
  keyOf(lock: string): string;
  /** Waits for the lock, and runs until it is ended. */
  run(client: Redis, lock: string, onHeld: (section: Section) => void): Promise<unknown>;
  /** Acquires the lock. Resolves to what the library gives its caller, and to the release. */
  hold(client: Redis, lock: string, ttlMs: number): Promise<readonly [given: object, release: () => unknown]>;
}

/** A promise, and the call that resolves it. */
function latch(): { opened: Promise<void>; open: () => void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

/** A section with an AbortSignal. */
async function underSignal(signal: AbortSignal, onHeld: (section: Section) => void): Promise<void> {
  const { opened, open } = latch();
  onHeld({ isNotified: () => signal.aborted, end: open });
  await opened;
}

const CONTENDERS: readonly Contender[] = [
  {
    name: 'holdfast',
    column: 'Holdfast',
    keyOf: (lock) => `holdfast:${lock}`,
    run: async (client, lock, onHeld) => {
      const locks = createLocks(redisStore(client), { ttlMs: TTL_MS, waitMs: 60_000 });
      await locks.withLock(lock, (hold) => underSignal(hold.signal, onHeld)).finally(() => locks.close());
    },
    hold: async (client, lock, ttlMs) => {
      const hold = await createLocks(redisStore(client)).mutex(lock).acquire({ ttlMs });
      return [hold, () => hold.release()];
    },
  },
  {
    name: 'redlock',
    column: 'redlock 5',
    keyOf: (lock) => lock,
    run: async (client, lock, onHeld) => {
      const redlock = new Redlock([client], { automaticExtensionThreshold: TTL_MS / 3 });
      // It gives up after ten attempts, so a program that wants to wait longer calls again.
      for (let isOver = false; !isOver; ) {
        const section = async (signal: AbortSignal): Promise<void> => {
          isOver = true;
          await underSignal(signal, onHeld);
        };
        await redlock.using([lock], TTL_MS, section).catch(() => {});
      }
    },
    hold: async (client, lock, ttlMs) => {
      const held = await new Redlock([client]).acquire([lock], ttlMs);
      return [held, () => held.release()];
    },
  },
  {
    name: 'redis-semaphore',
    column: 'redis-semaphore 5',
    keyOf: (lock) => `mutex:${lock}`,
    run: async (client, lock, onHeld) => {
      let isNotified = false;
      const onLockLost = (): void => {
        isNotified = true;
      };
      const mutex = new Mutex(client as never, lock, { lockTimeout: TTL_MS, onLockLost });
      await mutex.acquire();
      const { opened, open } = latch();
      onHeld({ isNotified: () => isNotified, end: open });
      await opened;
      await mutex.release();
    },
    hold: async (client, lock, ttlMs) => {
      const mutex = new Mutex(client as never, lock, { lockTimeout: ttlMs });
      await mutex.acquire();
      return [mutex, () => mutex.release()];
    },
  },
  {
    name: 'redlock-universal',
    column: 'redlock-universal 0.8',
    keyOf: (lock) => lock,
    run: async (client, lock, onHeld) => {
      const options = { adapter: new IoredisAdapter(client as never), key: lock, ttl: TTL_MS };
      await createLock({ ...options, retryAttempts: 1_000 }).using((signal) => underSignal(signal, onHeld));
    },
    hold: async (client, lock, ttlMs) => {
      const own = createLock({ adapter: new IoredisAdapter(client as never), key: lock, ttl: ttlMs });
      const handle = await own.acquire();
      return [handle, () => own.release(handle)];
    },
  },
  {
    name: '@verrou/core',
    column: 'verrou 0.5',
    keyOf: (lock) => lock,
    run: async (connection, lock, onHeld) => {
      const held = verrou(connection).createLock(lock, TTL_MS);
      await held.acquire({ retry: { timeout: 60_000 } });
      const { opened, open } = latch();
      // It has no signal and no callback. A program can only ask whether the time that it asked for
      // is over.
      onHeld({ isNotified: () => false, end: open });
      await opened;
      await held.release();
    },
    hold: async (connection, lock, ttlMs) => {
      const held = verrou(connection).createLock(lock, ttlMs);
      await held.acquire();
      return [held, () => held.release()];
    },
  },
];

function verrou(connection: Redis) {
  const redis = { driver: verrouStore({ connection: connection as never }) };
  return new Verrou({ default: 'redis', stores: { redis } });
}

const stage = await useStage(startStage());

/** Runs a section, and gives it to the caller while it runs. */
async function start(contender: Contender, lock: string): Promise<{ section: Section; client: Redis }> {
  const client = new Redis(stage.server.url);
  const section = await new Promise<Section>((resolve, reject) => {
    contender.run(client, lock, resolve).catch(reject);
  });
  return { section, client };
}

/** How long a library may take from its first command until it waits. */
const SETTLING_MS = 500;

/** Resolves when the server has carried out the commands with which the library began to wait. */
async function settled(client: Redis): Promise<void> {
  await client.ping();
  await sleep(SETTLING_MS);
  await client.ping();
}

/** Counts what the client sends. */
function counted(client: Redis): Redis & { sent: number } {
  const counting = Object.assign(client, { sent: 0 });
  const send = client.sendCommand.bind(client);
  client.sendCommand = (...args: Parameters<typeof send>) => {
    counting.sent += 1;
    return send(...args);
  };
  return counting;
}

interface Facts {
  readonly commandsWhileWaiting: number;
  readonly isRenewed: boolean;
  readonly isNotified: boolean;
}

async function factsOf(contender: Contender): Promise<Facts> {
  const lock = `facts-${contender.name}`;
  const key = contender.keyOf(lock);
  // One waits while another process that uses the same library holds the lock.
  const holder = await start(contender, lock);
  const waiter = counted(new Redis(stage.server.url));
  let waiting: Section | null = null;
  const ended = contender.run(waiter, lock, (section) => {
    waiting = section;
  });
  ended.catch(() => {});
  await settled(waiter);
  const sentBefore = waiter.sent;
  await sleep(WAIT_MS);
  const commandsWhileWaiting = waiter.sent - sentBefore;
  holder.section.end();
  await eventually(`${contender.name} holds`, () => waiting !== null);
  await sleep(BEYOND_TTL_MS);
  const isRenewed = (await stage.admin.exists(key)) === 1;
  (waiting as Section | null)?.end();
  // A release that finds its lock gone is retried by some.
  await Promise.race([ended.catch(() => {}), sleep(5_000)]);
  for (const each of [waiter, holder.client]) each.disconnect();
  await stage.admin.del(key);
  // The key is deleted under a holder: an operator, an eviction, a failover.
  const { section, client } = await start(contender, lock);
  await stage.admin.set(key, 'another program', 'PX', 60_000);
  await sleep(BEYOND_TTL_MS);
  const isNotified = section.isNotified();
  section.end();
  await stage.admin.del(key);
  await sleep(50);
  client.disconnect();
  return { commandsWhileWaiting, isRenewed, isNotified };
}

const WAITERS = 8;
const HELD_MS = 30;

/** Whether waiters of eight clients were granted in the order in which they began to wait. */
async function isInOrder(contender: Contender): Promise<boolean> {
  const lock = `order-${contender.name}`;
  const first = await start(contender, lock);
  const order: number[] = [];
  const clients: Redis[] = [];
  const waiting: Promise<unknown>[] = [];
  for (let n = 0; n < WAITERS; n += 1) {
    const client = new Redis(stage.server.url);
    clients.push(client);
    const onHeld = (section: Section): void => {
      order.push(n);
      setTimeout(section.end, HELD_MS);
    };
    waiting.push(contender.run(client, lock, onHeld));
    await settled(client);
  }
  first.section.end();
  await Promise.all(waiting);
  for (const client of [first.client, ...clients]) client.disconnect();
  return order.every((waiter, n) => waiter === n);
}

/** The numbers among the properties of an object, and those of its class. */
function numbersIn(given: object): ReadonlyMap<string, number | bigint> {
  const names = [...Object.keys(given), ...Object.getOwnPropertyNames(Object.getPrototypeOf(given))];
  const values = names.map((name) => [name, (given as Record<string, unknown>)[name]] as const);
  return new Map(
    values.filter((entry): entry is [string, number | bigint] => /^(?:number|bigint)$/.test(typeof entry[1])),
  );
}

/**
 * Whether the library gives its caller a number that rises with every holder. Each holder runs on a
 * host whose clock is behind that of the one before it, and asks for less time: the time of a host
 * is no fence, nor is the end of a lease.
 */
async function givesFence(contender: Contender): Promise<boolean> {
  const client = new Redis(stage.server.url);
  const seen: ReadonlyMap<string, number | bigint>[] = [];
  vi.useFakeTimers({ toFake: ['Date'] });
  try {
    for (const n of [1, 2, 3]) {
      vi.setSystemTime(Date.now() - n * 3_600_000);
      const [given, release] = await contender.hold(client, `fence-${contender.name}`, 30_000 / n);
      seen.push(numbersIn(given));
      await release();
    }
  } finally {
    vi.useRealTimers();
    client.disconnect();
  }
  const [one, two, three] = seen;
  const isRising = (name: string): boolean => {
    const [a, b, c] = [one?.get(name), two?.get(name), three?.get(name)];
    return a !== undefined && b !== undefined && c !== undefined && a < b && b < c;
  };
  return [...(one?.keys() ?? [])].some(isRising);
}

/** A waiter that is woken still asks now and then, in case a wake-up was lost. */
const WOKEN_MAX = 5;

it('the table of the README says what the libraries do', { timeout: 180_000 }, async () => {
  const facts = await Promise.all(CONTENDERS.map(factsOf));
  console.log(CONTENDERS.map(({ name }, n) => `${name} ${JSON.stringify(facts[n])}`).join('\n'));
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
  const cells = readme.split('\n').map((line) => line.split('|').map((cell) => cell.trim()));
  const rowOf = (title: string): string[] => cells.find(([, first]) => first === title)?.slice(2, -1) ?? [];
  const [head] = cells.filter((row) => row.includes('redis-semaphore 5'));
  expect(head?.slice(2, -1)).toEqual(CONTENDERS.map(({ column }) => column));
  const yes = (isSo: boolean): string => (isSo ? 'yes' : 'no');
  expect(rowOf('a waiter')).toEqual(
    facts.map(({ commandsWhileWaiting }) => (commandsWhileWaiting <= WOKEN_MAX ? 'is woken' : 'polls')),
  );
  expect(rowOf('renews the lock while the section runs')).toEqual(facts.map((each) => yes(each.isRenewed)));
  expect(rowOf('tells the section that the lock was taken away')).toEqual(
    facts.map((each) => yes(each.isNotified)),
  );
  expect(rowOf('serves waiters in order')).toEqual((await Promise.all(CONTENDERS.map(isInOrder))).map(yes));
  const fences: boolean[] = [];
  // One after the other: the clock of this process is set.
  for (const contender of CONTENDERS) fences.push(await givesFence(contender));
  expect(rowOf('gives a fence for what you write to')).toEqual(fences.map(yes));
});
