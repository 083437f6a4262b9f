import mysql from 'mysql2';
import mysqlPromise from 'mysql2/promise';
import pg from 'pg';
import postgres from 'postgres';
import { describe, expect, it } from 'vitest';
import { mysqlFenceGate, postgresFenceGate } from '../../src/fence/index.ts';

const refused = expect.objectContaining({
  code: 'INVALID_ARGUMENT',
  message: expect.stringContaining('pool'),
});

/** None of these connects before its first statement. */
const pools = {
  pg: () => postgresFenceGate(new pg.Pool()),
  'postgres.js': () => postgresFenceGate(postgres('postgres://127.0.0.1:1/x')),
  mysql2: () => mysqlFenceGate(mysql.createPool({ port: 1 })),
  'mysql2/promise': () => mysqlFenceGate(mysqlPromise.createPool({ port: 1 })),
};

describe('a gate', () => {
  it.each(Object.entries(pools))(
    'refuses a pool of %s: it gives each statement another connection',
    (_, make) => {
      expect(make).toThrow(refused);
    },
  );

  it('refuses an option that it does not know', () => {
    const tx = { query: () => undefined };
    const options = { prefx: 'jobs_' } as object;
    expect(() => mysqlFenceGate(tx, options)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }));
    expect(() => postgresFenceGate(new pg.Client(), options)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
    );
  });
});
