import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Verrou } from '@verrou/core';
import { redisStore as verrouStore } from '@verrou/core/drivers/redis';
import { Redis } from 'ioredis';
import { Mutex } from 'redis-semaphore';
import Redlock from 'redlock';
import { createLock, IoredisAdapter } from 'redlock-universal';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createLocks } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { type Stage, startStage } from '../redis/support/stage.ts';
import { eventually } from '../support/waiting/eventually.ts';

const TTL_MS = 3_000;
/** Without a renewal, nothing is held any more after this. */
const BEYOND_TTL_MS = 2 * TTL_MS;
/** How long the commands of one waiter are counted. */
const WAIT_MS = 2_000;

/** A section that runs under the lock until `end`. */
interface Section {
  /** Whether the library has told the section that the lock is lost. */
  isTold(): boolean;
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
  onHeld({ isTold: () => signal.aborted, end: open });
  await opened;
}

const CONTENDERS: readonly Contender[] = [
  {
    name: 'holdfast',
    column: 'Holdfast',
    keyOf: (lock) => `holdfast:${lock}`,
    run: async (client, lock, onHeld) => {
      const locks = createLocks(redisStore(client), { ttlMs: TTL_MS, waitMs: 20_000 });
      await locks.withLock(lock, (hold) => underSignal(hold.signal, onHeld)).finally(() => locks.close());
    },
  },
  {
    name: 'redlock',
    column: 'redlock 5',
    keyOf: (lock) => lock,
    run: async (client, lock, onHeld) => {
      const redlock = new Redlock([client], { automaticExtensionThreshold: 1_000 });
      // It gives up after ten attempts, so a program that wants to wait longer calls again.
      for (let isOver = false; !isOver; ) {
        const section = async (signal: AbortSignal): Promise<void> => {
          isOver = true;
          await underSignal(signal, onHeld);
        };
        await redlock.using([lock], TTL_MS, section).catch(() => {});
      }
    },
  },
  {
    name: 'redis-semaphore',
    column: 'redis-semaphore 5',
    keyOf: (lock) => `mutex:${lock}`,
    run: async (client, lock, onHeld) => {
      let isTold = false;
      const onLockLost = (): void => {
        isTold = true;
      };
      const mutex = new Mutex(client as never, lock, { lockTimeout: TTL_MS, onLockLost });
      await mutex.acquire();
      const { opened, open } = latch();
      onHeld({ isTold: () => isTold, end: open });
      await opened;
      await mutex.release();
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
  },
  {
    name: '@verrou/core',
    column: 'verrou 0.5',
    keyOf: (lock) => lock,
    run: async (connection, lock, onHeld) => {
      const redis = { driver: verrouStore({ connection: connection as never }) };
      const held = new Verrou({ default: 'redis', stores: { redis } }).createLock(lock, TTL_MS);
      await held.acquire({ retry: { timeout: 20_000 } });
      const { opened, open } = latch();
      // It has no signal and no callback. A program can only ask whether the time that it asked for is over.
      onHeld({ isTold: () => false, end: open });
      await opened;
      await held.release();
    },
  },
];

let stage: Stage;
beforeAll(async () => {
  stage = await startStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

/** Runs a section, and gives it to the caller while it runs. */
async function start(contender: Contender, lock: string): Promise<{ section: Section; client: Redis }> {
  const client = new Redis(stage.server.url);
  const section = await new Promise<Section>((resolve, reject) => {
    contender.run(client, lock, resolve).catch(reject);
  });
  return { section, client };
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
  readonly isTold: boolean;
}

async function factsOf(contender: Contender): Promise<Facts> {
  const lock = `facts-${contender.name}`;
  const key = contender.keyOf(lock);
  // One waits while another program holds the key.
  await stage.admin.set(key, 'another program', 'PX', 60_000);
  const waiter = counted(new Redis(stage.server.url));
  let waiting: Section | null = null;
  const ended = contender.run(waiter, lock, (section) => {
    waiting = section;
  });
  ended.catch(() => {});
  await sleep(500);
  const sentBefore = waiter.sent;
  await sleep(WAIT_MS);
  const commandsWhileWaiting = waiter.sent - sentBefore;
  await stage.admin.del(key);
  await eventually(`${contender.name} holds`, () => waiting !== null);
  await sleep(BEYOND_TTL_MS);
  const isRenewed = (await stage.admin.exists(key)) === 1;
  (waiting as Section | null)?.end();
  // A release that finds its lock gone is retried by some.
  await Promise.race([ended.catch(() => {}), sleep(5_000)]);
  waiter.disconnect();
  await stage.admin.del(key);
  // The key is deleted under a holder: an operator, an eviction, a failover.
  const { section, client } = await start(contender, lock);
  await stage.admin.set(key, 'another program', 'PX', 60_000);
  await sleep(BEYOND_TTL_MS);
  const isTold = section.isTold();
  section.end();
  await stage.admin.del(key);
  await sleep(50);
  client.disconnect();
  return { commandsWhileWaiting, isRenewed, isTold };
}

/** A waiter that is woken asks now and then all the same, in case a wake-up was lost. */
const WOKEN_MAX = 5;

it('the table of the README says what the libraries do', { timeout: 120_000 }, async () => {
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
    facts.map((each) => yes(each.isTold)),
  );
});
