import { readFileSync } from 'node:fs';
import { Etcd3 } from 'etcd3';
import { Redis } from 'ioredis';
import mysql from 'mysql2';
import zookeeper from 'node-zookeeper-client';
import pg from 'pg';
import { afterAll, describe, expect, it } from 'vitest';
import { createDashboard } from '../../src/dashboard/index.ts';
import { mysqlFenceGate, postgresFenceGate, redisFenceGate } from '../../src/fence/index.ts';
import { createLocks, memoryStore, openLocks } from '../../src/index.ts';
import { schedule } from '../../src/schedule/index.ts';
import { etcdStore } from '../../src/stores/etcd/index.ts';
import { mysqlStore } from '../../src/stores/mysql/index.ts';
import {
  bindFence,
  lockInTransaction,
  postgresAdvisoryStore,
  postgresLeaseStore,
  tryLockInTransaction,
} from '../../src/stores/postgres/index.ts';
import { redisStore, redlockStore } from '../../src/stores/redis/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { instrument } from '../../src/telemetry/index.ts';
import { simulate, virtualClock } from '../../src/testing/index.ts';
import { torture } from '../../src/torture/index.ts';
import { makeWorld } from '../support/memory/world.ts';

/** Plain JavaScript: no compiler has seen these. */
const untyped = (options: object): never => options as never;

type Call = readonly [call: string, hint: string, make: () => unknown];

const { locks } = makeWorld();
const own = locks();
const tx = { query: () => Promise.reject(new Error('no statement may be sent')) };
const etcd = new Etcd3({ hosts: '127.0.0.1:1' });
const redis = new Redis({ lazyConnect: true });
const pool = new pg.Pool();
const mysqlPool = mysql.createPool({ host: '127.0.0.1', port: 1 });
afterAll(async () => {
  etcd.close();
  await own.close();
});

/** Every function of the public API that takes options. */
const CALLS: readonly Call[] = [
  ['createLocks', 'did you mean ttlMs?', () => createLocks(memoryStore(), untyped({ ttl: 5 }))],
  ['openLocks', 'did you mean ttlMs?', () => openLocks('memory:', untyped({ ttl: 5 }))],
  ['memoryStore', 'did you mean queueMax?', () => memoryStore(untyped({ queuMax: 5 }))],
  ['Locks.mutex', 'did you mean waitMs?', () => own.mutex('a', untyped({ wait: 5 }))],
  ['Locks.withLock', 'did you mean signal?', () => own.withLock('a', () => {}, untyped({ signl: 1 }))],
  ['Locks.readWriteLock', 'did you mean ttlMs?', () => own.readWriteLock('a', untyped({ ttl: 1 }))],
  ['Locks.semaphore', 'did you mean waitMs?', () => own.semaphore('a', untyped({ permits: 1, waitms: 1 }))],
  ['Locks.all', 'did you mean ttlMs?', () => own.all(['a'], untyped({ ttl: 1 }))],
  ['Locks.election', 'did you mean ttlMs?', () => own.election('a', untyped({ ttl: 1 }))],
  ['Locks.once', 'did you mean rememberMs?', () => own.once('a', () => {}, untyped({ remember: 1 }))],
  ['Locks.rateLimit', 'did you mean perMs?', () => own.rateLimit('a', untyped({ permits: 1, per: 1 }))],
  ['Locks.inspect', 'known: use', () => own.inspect('a', untyped({ kind: 'once' }))],
  ['Locks.evict', 'known: use', () => own.evict('a', { id: 'x' }, untyped({ kind: 'once' }))],
  ['Locks.close', 'did you mean drainMs?', () => own.close(untyped({ drain: 1 }))],
  ['Lockable.acquire', 'known: ttlMs, waitMs', () => own.mutex('a').acquire(untyped({ retryCount: 3 }))],
  [
    'Lockable.tryAcquire',
    'did you mean metadata?',
    () => own.mutex('a').tryAcquire(untyped({ metaData: {} })),
  ],
  ['Lockable.run', 'did you mean renew?', () => own.mutex('a').run(() => {}, untyped({ renewal: true }))],
  ['Lockable.tryRun', 'did you mean ttlMs?', () => own.mutex('a').tryRun(() => {}, untyped({ ttlms: 1 }))],
  ['RateLimit.take', 'known: waitMs, signal, metadata', () => limit().take(1, untyped({ ttlMs: 1 }))],
  ['RateLimit.tryTake', 'did you mean signal?', () => limit().tryTake(1, untyped({ signa: 1 }))],
  [
    'Election.start',
    'did you mean onElected?',
    () => own.election('a').start(untyped({ onElect: () => {} })),
  ],
  ['Election.lead', 'known: signal', () => own.election('a').lead(async () => {}, untyped({ waitMs: 1 }))],
  ['Election.observe', 'did you mean signal?', () => own.election('a').observe(untyped({ signall: 1 }))],
  [
    'Candidate.stop',
    'did you mean drainMs?',
    () =>
      own
        .election('b')
        .start()
        .stop(untyped({ drain: 1 })),
  ],
  ['createDashboard', 'did you mean access?', () => createDashboard(own, untyped({ acess: () => 'read' }))],
  ['etcdStore', 'did you mean prefix?', () => etcdStore(etcd, untyped({ prefx: 'a/' }))],
  ['mysqlFenceGate', 'did you mean prefix?', () => mysqlFenceGate(tx, untyped({ prefx: 'a' }))],
  ['postgresFenceGate', 'did you mean schema?', () => postgresFenceGate(tx, untyped({ scheme: 'a' }))],
  ['redisFenceGate', 'did you mean prefix?', () => redisFenceGate(redis, untyped({ prefx: 'a' }))],
  ['mysqlStore', 'did you mean prefix?', () => mysqlStore(mysqlPool, untyped({ Prefix: 'a' }))],
  ['postgresLeaseStore', 'did you mean schema?', () => postgresLeaseStore(pool, untyped({ shema: 'a' }))],
  ['postgresAdvisoryStore', 'queueMax?', () => postgresAdvisoryStore(pool, untyped({ queueMx: 1 }))],
  ['lockInTransaction', 'did you mean waitMs?', () => lockInTransaction(tx, 'a', untyped({ wait: 1 }))],
  ['tryLockInTransaction', 'known: mode', () => tryLockInTransaction(tx, 'a', untyped({ waitMs: 1 }))],
  ['bindFence', 'schema?', () => bindFence(tx, { name: 'a', fence: 1n }, untyped({ scheme: 'a' }))],
  ['redisStore', 'did you mean prefix?', () => redisStore(redis, untyped({ keyPrefix: 'x' }))],
  ['redlockStore', 'did you mean drift?', () => redlockStore([redis], untyped({ driftFactor: 0.01 }))],
  ['sqliteStore', 'did you mean queueMax?', () => sqliteStore(':memory:', untyped({ queuemax: 1 }))],
  [
    'zookeeperStore',
    'did you mean root?',
    () => zookeeperStore(() => zookeeper.createClient('127.0.0.1:1'), untyped({ Root: '/jobs' })),
  ],
  [
    'schedule',
    'did you mean maxLateMs?',
    () => schedule(own, 'a', '* * * * *', () => {}, untyped({ maxLate: 5 })),
  ],
  ['Schedule.stop', 'did you mean drainMs?', () => stopSchedule({ drain: 1 })],
  ['instrument', 'did you mean meterProvider?', () => instrument(own, untyped({ meter: 1 }))],
  ['simulate', 'did you mean histories?', () => simulate(untyped({}), untyped({ historys: 1 }))],
  ['virtualClock', 'did you mean seed?', () => virtualClock(untyped({ sed: 7 }))],
  ['torture', 'did you mean minutes?', () => torture('a.mjs', untyped({ server: 'redis', minute: 1 }))],
];

const limit = () => own.rateLimit('a', { permits: 1, perMs: 1 });

async function stopSchedule(options: object): Promise<void> {
  await using made = schedule(own, 'a', '* * * * *', () => {});
  await made.stop(untyped(options));
}

/** More places for options than functions that take them. */
const PLACES: readonly Call[] = [
  ['pollMs', 'known: min, max', () => createLocks(memoryStore(), { pollMs: untyped({ least: 1 }) })],
  ['pollMs of a call', 'known: ttlMs', () => own.mutex('a').acquire(untyped({ pollMs: 3 }))],
  [
    'permits',
    'did you mean permits?',
    () => own.semaphore('a', { permits: 2 }).acquire(untyped({ permit: 1 })),
  ],
  ['all', 'did you mean ttlMs?', () => own.all(['a']).acquire(untyped({ ttl: 1 }))],
  [
    'a write through a gate',
    'did you mean set?',
    () => redisFenceGate(redis).write('r', 1n, untyped({ set: ['a', 'b'], ex: 1 })),
  ],
];

/** Options that exist, where they cannot have an effect. */
const WITHOUT_EFFECT: readonly Call[] = [
  ['waitMs of tryAcquire', 'acquire waits', () => own.mutex('a').tryAcquire(untyped({ waitMs: 1 }))],
  ['waitMs of tryRun', 'run waits', () => own.mutex('a').tryRun(() => {}, untyped({ waitMs: 1 }))],
  ['waitMs of tryAcquire of all', 'acquire waits', () => own.all(['a']).tryAcquire(untyped({ waitMs: 0 }))],
  ['waitMs of tryRun of all', 'run waits', () => own.all(['a']).tryRun(() => {}, untyped({ waitMs: 1 }))],
  ['waitMs of tryTake', 'take waits', () => limit().tryTake(1, untyped({ waitMs: 1 }))],
];

async function refusal(make: () => unknown): Promise<unknown> {
  try {
    await make();
    return 'not refused';
  } catch (error) {
    return error;
  }
}

describe('an unknown option is refused with the nearest known name', () => {
  it.each([...CALLS, ...PLACES])('%s: %s', async (_, hint, make) => {
    const error = await refusal(make);
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect((error as Error).message).toContain(hint);
  });

  it('in every function of the public API that takes options', () => {
    expect(CALLS.map(([call]) => call).sort()).toEqual(takersOfOptions().sort());
  });

  it('but a key that is undefined, inherited or a symbol is ignored', async () => {
    const options = Object.assign(Object.create({ inherited: 1, waitMs: 1 }), {
      ttl: undefined,
      [Symbol('x')]: 1,
    });
    await (await own.mutex('c').acquire(options)).release();
    await (await own.mutex('c').tryAcquire(options))?.release();
  });
});

describe('an option without effect is refused', () => {
  it.each(WITHOUT_EFFECT)('%s: %s', async (_, hint, make) => {
    const error = await refusal(make);
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect((error as Error).message).toContain(hint);
  });
});

/** Interfaces that others implement: their options are not ours to check. */
const IMPLEMENTED_ELSEWHERE = new Set(['Clock', 'EtcdClient', 'StoreEnv']);

/** By the text of the public API: `function`, or `Interface.method`. */
function takersOfOptions(): string[] {
  const text = readFileSync(new URL('../types/public-api.txt', import.meta.url), 'utf8');
  const found = new Set<string>();
  let inside = '';
  let signature = '';
  for (const line of text.split('\n')) {
    inside = /^interface (\w+)/.exec(line)?.[1] ?? (line.startsWith('}') && signature === '' ? '' : inside);
    // A signature may go over several lines, until its brackets are closed.
    if (signature !== '' || /^(?:function| {4}\w+(?:<\w+>)?\()/.test(line)) signature += line;
    if (/[({]/.test(signature) && depthOf(signature) > 0) continue;
    const name = /^(?:function)? +(\w+)/.exec(signature)?.[1];
    const isTaker = /\b(?:options|handlers)\??:/.test(signature) && !IMPLEMENTED_ELSEWHERE.has(inside);
    if (name !== undefined && name !== 'constructor' && isTaker)
      found.add(signature.startsWith('function') ? name : `${inside}.${name}`);
    signature = '';
  }
  return [...found];
}

const depthOf = (text: string): number =>
  (text.match(/[({]/g)?.length ?? 0) - (text.match(/[)}]/g)?.length ?? 0);
