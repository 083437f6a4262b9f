import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLeaseStore } from '../../src/stores/postgres/index.ts';
import { Schema } from '../../src/stores/postgres/schema.ts';
import { holdfast as run } from '../cli/support/holdfast.ts';
import { makePool } from '../support/clients/postgres-pools.ts';
import { type PostgresServer, startSharedPostgres } from '../support/servers/postgres.ts';
import { request } from './support/lease-stage.ts';

let server: PostgresServer;
beforeAll(async () => {
  server = await startSharedPostgres();
});
afterAll(() => server.stop());

const COUNT = 'SELECT count(*), max(id) FROM holdfast.migrations';
const LAST = new Schema().migrations.length;

describe('the schema', () => {
  it('has migrations that are numbered from 1 without a gap', () => {
    const ids = new Schema().migrations.map(({ id }) => id);
    expect(ids).toEqual(ids.map((_, index) => index + 1));
  });

  it('row 48 and concurrent first use: twenty processes create it once, and all can lock', async () => {
    const url = await server.createDatabase();
    const results = await Promise.all(
      Array.from({ length: 20 }, () => run(['list', '--json'], { HOLDFAST_URL: url })),
    );
    expect(results.map(({ code, stderr }) => [code, stderr])).toEqual(
      Array.from({ length: 20 }, () => [0, '']),
    );
    expect(server.psql(url, COUNT)).toBe(`${LAST}|${LAST}`);
  }, 120_000);

  it('concurrent first use: twenty connections of one process', async () => {
    const url = await server.createDatabase();
    const stores = Array.from({ length: 20 }, () => postgresLeaseStore(makePool('pg.Pool', url)));
    const outcomes = await Promise.all(stores.map((store) => store.claim(request('first'))));
    expect(outcomes.filter((outcome) => outcome.granted)).toHaveLength(1);
    await Promise.all(stores.map((store) => store.close()));
  });

  it('is printed by the command line as a script that can be run again', async () => {
    const url = await server.createDatabase();
    const { stdout, code } = await run(['migrations', '--schema', 'locks_of_ours']);
    expect(code).toBe(0);
    server.psql(url, stdout);
    const claims = "SELECT granted FROM locks_of_ours.claim('before', 'psql')";
    expect(server.psql(url, claims)).toBe('t');
    // Run again, it changes nothing and fails at nothing.
    server.psql(url, stdout);
    expect(server.psql(url, 'SELECT count(*) FROM locks_of_ours.migrations')).toBe(`${LAST}`);
    expect(server.psql(url, "SELECT id FROM locks_of_ours.read('before')")).toBe('psql');
    const store = postgresLeaseStore(makePool('pg.Pool', url), { schema: 'locks_of_ours', migrate: false });
    expect(await store.claim(request('a'))).toMatchObject({ granted: true });
    await store.close();
    expect(server.psql(url, "SELECT to_regnamespace('holdfast') IS NULL")).toBe('t');
    expect((await run(['migrations', '--schema', 'Bad"'])).code).toBe(64);
  });

  it('is not created with migrate: false, nor without the privileges', async () => {
    const url = await server.createDatabase();
    const unwilling = postgresLeaseStore(makePool('pg.Pool', url), { migrate: false });
    await expect(unwilling.claim(request('a'))).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    await unwilling.close();
    const options = { migrate: false, schema: 'ours' };
    const elsewhere = postgresLeaseStore(makePool('pg.Pool', url), options);
    const missing = { message: expect.stringContaining('"holdfast migrations --schema ours"') };
    await expect(elsewhere.claim(request('a'))).rejects.toMatchObject(missing);
    await elsewhere.close();
    const role = `nobody_${process.pid}`;
    server.psql(url, `CREATE ROLE ${role} LOGIN`);
    const unable = postgresLeaseStore(makePool('pg.Pool', url.replace('postgres@', `${role}@`)));
    await expect(unable.claim(request('a'))).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringMatching(/may not create them: permission denied .*holdfast migrations/),
    });
    await unable.close();
    server.psql(url, `DROP ROLE ${role}`);
  });

  it('that was dropped while in use is created again by the next call', async () => {
    const url = await server.createDatabase();
    const store = postgresLeaseStore(makePool('pg.Pool', url), { connections: 1 });
    await store.claim(request('a'));
    server.psql(url, 'SET client_min_messages = error; DROP SCHEMA holdfast CASCADE');
    await expect(store.claim(request('b'))).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
    expect(await store.claim(request('b'))).toMatchObject({ granted: true });
    await store.close();
  });

  it('keeps locks of the same name in two schemas apart', async () => {
    const url = await server.createDatabase();
    const stores = ['one', 'two'].map((schema) => postgresLeaseStore(makePool('pg.Pool', url), { schema }));
    for (const store of stores) expect(await store.claim(request('same'))).toMatchObject({ granted: true });
    await Promise.all(stores.map((store) => store.close()));
  });

  it.each(['', 'Upper', 'a b', 'a"b', "a'b", '1a', 'pg_mine', 'a'.repeat(41)])(
    'has a plain name: %j is refused',
    (schema) => {
      const pool = makePool('pg.Pool', server.url);
      expect(() => postgresLeaseStore(pool, { schema })).toThrow(
        expect.objectContaining({ code: 'INVALID_ARGUMENT', argument: 'schema' }),
      );
    },
  );
});
