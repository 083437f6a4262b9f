import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stopPrograms } from '../support/process/program.ts';
import { type PostgresServer, startSharedPostgres } from '../support/servers/postgres.ts';
import {
  compileExamples,
  eventually,
  linesOf,
  runExample,
  runTogether,
  startExample,
} from './support/example.ts';
import { startService } from './support/service.ts';

let server: PostgresServer;
let url: string;
let pool: pg.Pool;
let env: NodeJS.ProcessEnv;

beforeAll(async () => {
  compileExamples('pay-once', 'last-seat', 'postgres-drizzle', 'postgres-kysely');
  server = await startSharedPostgres();
  url = await server.createDatabase();
  pool = new pg.Pool({ connectionString: url, max: 2 });
  env = { DATABASE_URL: url };
  await pool.query(`
    CREATE TABLE orders (id text PRIMARY KEY, amount int NOT NULL, receipt text);
    CREATE TABLE ledger (order_id text NOT NULL, receipt text NOT NULL);
    CREATE TABLE stock (item text PRIMARY KEY, amount int NOT NULL);
    CREATE TABLE seats (show text, seat int, customer text, sold bool NOT NULL DEFAULT false,
      reserved_until timestamptz NOT NULL DEFAULT '-infinity', PRIMARY KEY (show, seat));`);
});
afterAll(async () => {
  await stopPrograms();
  await pool?.end();
  await server?.stop();
});

/** A payment provider that charges once for each idempotency key, and answers the first call on request. */
function paymentProvider() {
  const charges = new Map<string, string>();
  let calls = 0;
  let answerFirst = (): void => {};
  const service = startService((request, response) => {
    const key = `${request.headers['idempotency-key']}`;
    if (!charges.has(key)) charges.set(key, `receipt ${charges.size + 1}`);
    calls += 1;
    const answer = (): void => void response.end(charges.get(key));
    if (calls === 1) answerFirst = answer;
    else answer();
  });
  return { service, charges, calls: () => calls, answerFirst: () => answerFirst() };
}

describe.concurrent('examples/pay-once.ts', () => {
  it('charges once, and PostgreSQL refuses the worker that was paused past its TTL', async () => {
    const provider = paymentProvider();
    await using service = await provider.service;
    const pay = (ttlMs: number) =>
      startExample('pay-once', ['42'], { ...env, PAYMENTS_URL: service.url, TTL_MS: `${ttlMs}` });
    await pool.query("INSERT INTO orders VALUES ('42', 100)");
    const paused = pay(4_000);
    await eventually('the first charge is sent', () => provider.calls() === 1);
    paused.child.kill('SIGSTOP');
    provider.answerFirst();
    expect(await linesOf(pay(60_000))).toEqual(['paid']);
    paused.child.kill('SIGCONT');
    expect(await linesOf(paused)).toEqual(['refused: a later holder of the lock has written']);
    expect([...provider.charges]).toEqual([['order-42', 'receipt 1']]);
    expect(provider.calls()).toBe(2);
    const { rows } = await pool.query('SELECT * FROM ledger');
    expect(rows).toEqual([{ order_id: '42', receipt: 'receipt 1' }]);
    expect(await linesOf(pay(60_000))).toEqual(['was paid before']);
    expect(provider.calls()).toBe(2);
  });
});

describe.concurrent.each(['drizzle', 'kysely'])('examples/postgres-%s.ts', (builder) => {
  it('moves money in both directions at once, and loses none', async () => {
    const printed = await runExample(`postgres-${builder}`, [await server.createDatabase()], {});
    // Ten times 5 to bob, and ten times 3 back.
    expect(printed.join(' ')).toMatch(
      /'ada', balance: 80 .* 'bob', balance: 120 |'bob', balance: 120 .*: 80 /,
    );
  });
});

describe.concurrent('examples/last-seat.ts', () => {
  it('sells no more than there are', async () => {
    await pool.query("INSERT INTO stock VALUES ('shirt', 2)");
    const sold = (await runTogether(3, 'last-seat', ['sell', 'shirt'], env)).flat();
    expect(sold.sort()).toEqual(['false', 'true', 'true']);
    const { rows } = await pool.query("SELECT amount FROM stock WHERE item = 'shirt'");
    expect(rows).toEqual([{ amount: 0 }]);
  });

  it('reserves seats side by side for one customer each, until a time and not for a process', async () => {
    await pool.query("INSERT INTO seats (show, seat) SELECT 'hamlet', n FROM generate_series(1, 5) n");
    const reserve = async (customer: string): Promise<number[]> =>
      JSON.parse((await runExample('last-seat', ['reserve', 'hamlet', customer, '2'], env)).join());
    const customers = ['ada', 'bob', 'eve'];
    const reserved = await Promise.all(customers.map(reserve));
    expect(reserved.filter((seats) => seats.length > 0).sort()).toEqual([
      [1, 2],
      [3, 4],
    ]);
    const [happy = '', late = ''] = customers.filter((_, n) => (reserved[n]?.length ?? 0) > 0);
    // The processes that have reserved are gone; the reservations are not.
    expect(await reserve('kim')).toEqual([]);
    const buy = async (customer: string): Promise<number> =>
      JSON.parse((await runExample('last-seat', ['buy', 'hamlet', customer], env)).join()).length;
    await pool.query("UPDATE seats SET reserved_until = now() - interval '1 second' WHERE customer = $1", [
      late,
    ]);
    expect(await buy(happy)).toBe(2);
    expect(await buy(late)).toBe(0);
    expect(await reserve('kim')).toHaveLength(2);
    expect(await buy('kim')).toBe(2);
    expect(await reserve('lee')).toEqual([]);
  });
});
