import { readFileSync } from 'node:fs';
import pg from 'pg';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresFenceGate } from '../../src/fence/index.ts';
import { bindFence } from '../../src/stores/postgres/fence.ts';
import { Schema } from '../../src/stores/postgres/schema.ts';
import { type PostgresServer, startSharedPostgres } from '../support/servers/postgres.ts';
import { connectionsTo } from './support/connections.ts';

let server: PostgresServer;
let url: string;
const { connect, begin } = connectionsTo(() => url);

beforeAll(async () => {
  server = await startSharedPostgres();
  url = await server.createDatabase();
  server.psql(url, new Schema().script);
}, 120_000);
afterAll(() => server?.stop());

const waiting = async (): Promise<number> =>
  (
    await server.query("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = $1", [
      new URL(url).pathname.slice(1),
    ])
  ).length;

describe('postgresFenceGate', () => {
  it('accepts the same fence and greater ones, and refuses a smaller one, for each resource', async () => {
    const gate = postgresFenceGate(await connect());
    await gate.check('a', 5n);
    await gate.check('a', 5n);
    await gate.check('a', 2n ** 62n);
    await expect(gate.check('a', 6n)).rejects.toMatchObject({
      code: 'STALE_FENCE',
      resource: 'a',
      fence: 6n,
      latest: 2n ** 62n,
    });
    await gate.check('b', 6n);
    await expect(gate.check('', 6n)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(gate.check('a', 6 as never)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect(() => postgresFenceGate({} as never)).toThrow(/transaction/);
  });

  it('commits or rolls back with the write', async () => {
    const tx = await begin();
    await postgresFenceGate(tx).check('roll', 9n);
    await tx.query('ROLLBACK');
    await postgresFenceGate(tx).check('roll', 8n);
  });

  it('works in a transaction of postgres.js', async () => {
    const sql = postgres(url, { max: 1 });
    await sql.begin((tx) => postgresFenceGate(tx).check('js', 3n));
    await expect(sql.begin((tx) => postgresFenceGate(tx).check('js', 2n))).rejects.toMatchObject({
      code: 'STALE_FENCE',
    });
    await sql.end();
  });

  it('a later holder waits for an earlier one that writes, which is refused after that', async () => {
    const [old, next] = [await begin(), await begin()];
    await postgresFenceGate(old).check('order', 1n);
    const passed = postgresFenceGate(next).check('order', 2n);
    await expect.poll(waiting).toBe(1);
    await old.query('COMMIT');
    await passed;
    const late = await begin();
    const refused = expect(postgresFenceGate(late).check('order', 1n)).rejects.toMatchObject({ latest: 2n });
    await expect.poll(waiting).toBe(1);
    await next.query('COMMIT');
    await refused;
  });

  it('row 48: above READ COMMITTED, the server ends a transaction that began too early', async () => {
    const late = await begin('ISOLATION LEVEL SERIALIZABLE');
    await late.query('SELECT 1 FROM holdfast.fences');
    await postgresFenceGate(await connect()).check('serial', 2n);
    await expect(postgresFenceGate(late).check('serial', 1n)).rejects.toMatchObject({ code: '40001' });
  });

  it('says what to do where there are no tables, and takes another schema', async () => {
    const other = await server.createDatabase();
    const tx = new pg.Client(other);
    await tx.connect();
    await expect(postgresFenceGate(tx).check('a', 1n)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('holdfast migrations'),
    });
    await expect(postgresFenceGate(tx, { schema: 'locks_2' }).check('a', 1n)).rejects.toMatchObject({
      message: expect.stringContaining('"holdfast migrations --schema locks_2"'),
    });
    server.psql(other, new Schema('locks_2').script);
    await postgresFenceGate(tx, { schema: 'locks_2' }).check('a', 1n);
    await tx.query("CREATE TABLE t (n int); SELECT locks_2.require_fence('t')");
    await tx.query('BEGIN');
    await bindFence(tx, { name: 'a', fence: 1n }, { schema: 'locks_2' });
    await tx.query('INSERT INTO t VALUES (1)');
    await tx.query('COMMIT');
    expect(() => postgresFenceGate(tx, { schema: 'x"; DROP' })).toThrow(/schema/);
    await tx.end();
  });
});

describe('holdfast.require_fence', () => {
  beforeAll(() => {
    server.psql(
      url,
      `CREATE TABLE orders (id int PRIMARY KEY, total int);
       SELECT holdfast.require_fence('orders');
       SELECT holdfast.require_fence('orders');`,
    );
  });

  it('takes no fence of another schema, whose lock of the same name has fences of its own', async () => {
    server.psql(url, new Schema('locks_3').script);
    const theirs = await begin();
    await bindFence(theirs, { name: 'twice', fence: 900n }, { schema: 'locks_3' });
    await expect(theirs.query('INSERT INTO orders VALUES (7, 1)')).rejects.toMatchObject({ code: 'HF001' });
    await theirs.query('ROLLBACK');
    const ours = await begin();
    await bindFence(ours, { name: 'twice', fence: 800n });
    await ours.query('INSERT INTO orders VALUES (7, 1)');
    await ours.query('ROLLBACK');
  });

  it('refuses every kind of write without a fence', async () => {
    const client = await connect();
    const writes = [
      'INSERT INTO orders VALUES (1, 1)',
      'UPDATE orders SET total = 2',
      'DELETE FROM orders',
      'TRUNCATE orders',
      'INSERT INTO orders VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET total = 3',
      'WITH gone AS (DELETE FROM orders RETURNING id) SELECT * FROM gone',
    ];
    for (const write of writes) await expect(client.query(write)).rejects.toMatchObject({ code: 'HF001' });
    expect(() => server.psql(url, 'COPY orders FROM stdin;\n2\t2\n\\.\n')).toThrow(/needs a fence/);
    expect((await client.query('SELECT * FROM orders')).rows).toEqual([]);
  });

  it('takes writes in a transaction that has bound one, and only in that', async () => {
    const client = await begin();
    await bindFence(client, { name: 'orders', fence: 10n });
    await client.query('INSERT INTO orders VALUES (1, 1)');
    await client.query('UPDATE orders SET total = 2');
    await client.query('COMMIT');
    await expect(client.query('UPDATE orders SET total = 3')).rejects.toMatchObject({ code: 'HF001' });
  });

  it('cannot be bound outside a transaction, by either library, and leaves no trace', async () => {
    const client = await connect();
    const sql = postgres(url, { max: 1 });
    for (const tx of [client, sql])
      await expect(bindFence(tx, { name: 'outside', fence: 10n })).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        argument: 'tx',
        message: expect.stringContaining('not inside a transaction'),
      });
    await sql.begin((tx) => bindFence(tx, { name: 'outside', fence: 9n }));
    await sql.end();
  });

  it('refuses a stale fence, when it is bound and when it was bound before', async () => {
    const [old, next] = [await begin(), await begin()];
    // Paused before its first write, and even before it bound: the row of its lock is not taken.
    await old.query(
      `SELECT set_config('holdfast.lock', 'stale', true), set_config('holdfast.fence', '20', true),
        set_config('holdfast.fences', 'holdfast.fences'::regclass::oid::text, true)`,
    );
    await bindFence(next, { name: 'stale', fence: 21n });
    await next.query('COMMIT');
    await expect(old.query('UPDATE orders SET total = 4')).rejects.toMatchObject({
      code: 'HF002',
      message: expect.stringContaining('21 was seen before'),
    });
    const again = await begin();
    await expect(bindFence(again, { name: 'stale', fence: 20n })).rejects.toMatchObject({
      code: 'STALE_FENCE',
      latest: 21n,
    });
    await expect(again.query('UPDATE orders SET total = 4')).rejects.toMatchObject({ code: 'HF001' });
  });

  it('what is no hold of one lock cannot be bound', async () => {
    const tx = await begin();
    for (const none of [null, {}, { name: 'a' }, { fence: 3n }, { names: ['a'], fenceOf: () => 3n }])
      await expect(bindFence(tx, none as never)).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        argument: 'hold',
      });
  });

  it('locks of other names do not hinder each other', async () => {
    const client = await begin();
    await bindFence(client, { name: 'order:7', fence: 100n });
    await client.query('UPDATE orders SET total = 5 WHERE id = 7');
    await client.query('COMMIT');
    await client.query('BEGIN');
    await bindFence(client, { name: 'order:8', fence: 90n });
    await client.query('UPDATE orders SET total = 5 WHERE id = 8');
    await client.query('COMMIT');
  });

  it('a role that owns nothing needs the rights that the page lists', async () => {
    const page = readFileSync(new URL('../../docs/stores/postgres.md', import.meta.url), 'utf8');
    const [grant = ''] = /GRANT [A-Z, ]+ ON holdfast\.fences TO app/.exec(page) ?? [];
    server.psql(
      url,
      `CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA holdfast TO app; ${grant}; GRANT ALL ON orders TO app`,
    );
    const own = new URL(url);
    own.username = 'app';
    const client = new pg.Client(own.href);
    await client.connect();
    await client.query('BEGIN');
    await bindFence(client, { name: 'granted', fence: 1n });
    await client.query('DELETE FROM orders WHERE id = 99');
    await client.query('COMMIT');
    await expect(client.query('DELETE FROM orders')).rejects.toMatchObject({ code: 'HF001' });
    await client.end();
    server.psql(url, 'DROP OWNED BY app; DROP ROLE app');
  });

  it('can be bound from any language', () => {
    const script = `BEGIN; SELECT holdfast.bind_fence('psql', 7); DELETE FROM orders WHERE id = 99; COMMIT;`;
    expect(server.psql(url, script)).toBe('7');
    expect(server.psql(url, "SELECT holdfast.bind_fence('psql', 6)")).toBe('7');
  });
});

describe.each(['REPEATABLE READ', 'SERIALIZABLE'])('a fence at %s', (level) => {
  const steps = {
    bindFence,
    check: (tx: pg.Client, { name, fence }: { name: string; fence: bigint }) =>
      postgresFenceGate(tx).check(name, fence),
  };
  beforeAll(() => {
    server.psql(url, 'CREATE TABLE IF NOT EXISTS counter (n int)');
  });

  it.each(Object.entries(steps))(
    '%s that waited for an earlier holder’s commit is a serialization failure',
    async (title, step) => {
      const name = `${level} ${title}`;
      for (const times of ['its first transaction', 'another transaction under the same fence']) {
        const [old, next] = [await begin(), await begin(`ISOLATION LEVEL ${level}`)];
        await old.query('DELETE FROM counter');
        await step(old, { name, fence: 1n });
        await old.query('INSERT INTO counter VALUES (1)');
        const passed = step(next, { name, fence: 2n });
        passed.catch(() => {});
        await expect.poll(waiting).toBe(1);
        await old.query('COMMIT');
        // Its snapshot is older than that commit: what it would read and write back is stale.
        await expect(passed, times).rejects.toMatchObject({ code: '40001' });
        await next.query('ROLLBACK');
      }
      const again = await begin(`ISOLATION LEVEL ${level}`);
      await step(again, { name, fence: 2n });
      expect((await again.query('SELECT n FROM counter')).rows).toEqual([{ n: 1 }]);
      await again.query('COMMIT');
    },
  );

  it.each(Object.entries(steps))(
    '%s after a snapshot that is older than an earlier holder’s commit is one too',
    async (title, step) => {
      const name = `${level} ${title} early`;
      const old = await begin();
      await step(old, { name, fence: 1n });
      await old.query('COMMIT');
      const next = await begin(`ISOLATION LEVEL ${level}`);
      await next.query('SELECT n FROM counter');
      await old.query('BEGIN');
      await step(old, { name, fence: 1n });
      await old.query('COMMIT');
      await expect(step(next, { name, fence: 2n })).rejects.toMatchObject({ code: '40001' });
    },
  );

  it('continues when the earlier holder rolled back', async () => {
    const name = `${level} undone`;
    const [old, next] = [await begin(), await begin(`ISOLATION LEVEL ${level}`)];
    await bindFence(old, { name, fence: 1n });
    const passed = bindFence(next, { name, fence: 2n });
    await expect.poll(waiting).toBe(1);
    await old.query('ROLLBACK');
    await passed;
    await next.query('COMMIT');
  });
});

describe('holdfast.require_fence and tables with parents', () => {
  it('refuses a partition, of any level, and names the table that takes its writes', async () => {
    const client = await connect();
    await client.query(`CREATE TABLE sale (day int, region int) PARTITION BY RANGE (day);
      CREATE TABLE sale_old PARTITION OF sale FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (region);
      CREATE TABLE sale_old_north PARTITION OF sale_old FOR VALUES FROM (0) TO (10);`);
    for (const child of ['sale_old', 'sale_old_north'])
      await expect(client.query(`SELECT holdfast.require_fence('${child}')`)).rejects.toMatchObject({
        code: 'HF005',
        message: `${child} is a part of sale, and a write to sale would need no fence`,
        hint: 'Require the fence of the whole: SELECT "holdfast".require_fence(\'sale\')',
      });
    await client.query("SELECT holdfast.require_fence('sale')");
    await expect(client.query('INSERT INTO sale VALUES (1, 1)')).rejects.toMatchObject({ code: 'HF001' });
    expect(
      (
        await client.query(
          `SELECT 1 FROM pg_trigger
            WHERE tgname = 'holdfast_fence' AND tgrelid::regclass::text LIKE 'sale_%'`,
        )
      ).rows,
    ).toEqual([]);
  });

  it('refuses a child of an inheritance tree, and names its parents', async () => {
    const client = await connect();
    await client.query(`CREATE TABLE city (name text); CREATE TABLE "Site" (place text);
      CREATE TABLE capital (country text) INHERITS (city, "Site")`);
    await expect(client.query("SELECT holdfast.require_fence('capital')")).rejects.toMatchObject({
      code: 'HF005',
      message: 'capital is a part of "Site" and city, and a write to "Site" and city would need no fence',
    });
  });

  it('a transaction that has bound nothing here has no fence, whatever its settings say', async () => {
    const client = await connect();
    await client.query("CREATE TABLE guarded (n int); SELECT holdfast.require_fence('guarded')");
    await client.query("SELECT holdfast.latest_fence('guarded', 5)");
    for (const fence of [5, 6]) {
      await client.query('BEGIN');
      await client.query(
        "SELECT set_config('holdfast.lock', 'guarded', true), set_config('holdfast.fence', $1::text, true)",
        [fence],
      );
      await expect(client.query('INSERT INTO guarded VALUES (1)')).rejects.toMatchObject({ code: 'HF001' });
      await client.query('ROLLBACK');
    }
  });
});

describe('a fence column of the user’s own', () => {
  it('refuses a stale write in one line of SQL', async () => {
    const client = await connect();
    await client.query('CREATE TABLE own (id int PRIMARY KEY, total int, fence bigint NOT NULL DEFAULT 0)');
    await client.query('INSERT INTO own VALUES (7, 0)');
    const write = async (total: number, fence: bigint): Promise<number | null> =>
      (
        await client.query('UPDATE own SET total = $1, fence = $2 WHERE id = 7 AND fence <= $2', [
          total,
          fence,
        ])
      ).rowCount;
    expect(await write(1, 5n)).toBe(1);
    expect(await write(2, 6n)).toBe(1);
    expect(await write(3, 5n)).toBe(0);
    expect(await write(4, 6n)).toBe(1);
  });
});
