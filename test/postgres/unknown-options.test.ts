import { Redis } from 'ioredis';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { postgresFenceGate, redisFenceGate } from '../../src/fence/index.ts';
import {
  bindFence,
  lockInTransaction,
  postgresAdvisoryStore,
  postgresLeaseStore,
  tryLockInTransaction,
} from '../../src/stores/postgres/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';

/** Plain JavaScript: no compiler has seen these. */
const untyped = (options: object): never => options as never;

describe('stores and gates refuse an unknown option before any I/O, and name the nearest known one', () => {
  const pool = new pg.Pool();
  const tx = { query: () => Promise.reject(new Error('no statement may be sent')) };
  const redis = new Redis({ lazyConnect: true });
  const hold = { name: 'a', fence: 1n };
  const calls: readonly (readonly [call: string, hint: string, make: () => unknown])[] = [
    ['postgresLeaseStore', 'schema', () => postgresLeaseStore(pool, untyped({ shema: 'a' }))],
    ['postgresAdvisoryStore', 'queueMax', () => postgresAdvisoryStore(pool, untyped({ queueMx: 1 }))],
    ['lockInTransaction', 'waitMs', () => lockInTransaction(tx, 'a', untyped({ wait: 1 }))],
    ['tryLockInTransaction', 'mode', () => tryLockInTransaction(tx, 'a', untyped({ mod: 'shared' }))],
    ['bindFence', 'schema', () => bindFence(tx, hold, untyped({ scheme: 'a' }))],
    ['postgresFenceGate', 'schema', () => postgresFenceGate(tx, untyped({ scheme: 'a' }))],
    ['redisFenceGate', 'prefix', () => redisFenceGate(redis, untyped({ prefx: 'a' }))],
    ['sqliteStore', 'queueMax', () => sqliteStore(':memory:', untyped({ queuemax: 1 }))],
  ];

  it.each(calls)('%s: did you mean %s?', async (_, known, make) => {
    const call = async (): Promise<unknown> => await make();
    await expect(call()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', argument: 'options' });
    await expect(call()).rejects.toThrow(`did you mean ${known}?`);
  });
});
