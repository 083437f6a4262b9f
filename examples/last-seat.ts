// Stock and seats in PostgreSQL. Run: DATABASE_URL=postgres://localhost/shop
// node --import tsx examples/last-seat.ts reserve hamlet ada 2    (or: buy hamlet ada, sell shirt)
import { lockInTransaction } from 'holdfast/postgres';
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL ?? 'postgres://localhost/shop' });

/** Stock is a number in one row. One statement is atomic: it needs no lock. */
async function sell(item: string): Promise<boolean> {
  const { rowCount } = await pool.query(
    'UPDATE stock SET amount = amount - 1 WHERE item = $1 AND amount > 0',
    [item],
  );
  return rowCount === 1;
}

/**
 * Seats side by side: many rows are read before some of them are taken, so the show is locked, for
 * the length of the transaction. The reservation itself is the row.
 */
async function reserve(show: string, customer: string, count: number): Promise<number[]> {
  const tx = await pool.connect();
  try {
    await tx.query('BEGIN');
    await lockInTransaction(tx, `show:${show}`);
    const { rows } = await tx.query<{ seat: number }>(
      'SELECT seat FROM seats WHERE show = $1 AND NOT sold AND reserved_until < now() ORDER BY seat',
      [show],
    );
    const free = rows.map((row) => row.seat);
    const first = free.find((seat, n) => free[n + count - 1] === seat + count - 1);
    const seats = first === undefined ? [] : Array.from({ length: count }, (_, n) => first + n);
    await tx.query(
      `UPDATE seats SET customer = $3, reserved_until = now() + interval '10 minutes'
       WHERE show = $1 AND seat = ANY($2)`,
      [show, seats, customer],
    );
    await tx.query('COMMIT');
    return seats;
  } catch (error) {
    await tx.query('ROLLBACK');
    throw error;
  } finally {
    tx.release();
  }
}

/** Minutes later, in another request and another process. No row: the reservation has expired. */
async function buy(show: string, customer: string): Promise<number[]> {
  const { rows } = await pool.query<{ seat: number }>(
    `UPDATE seats SET sold = true
     WHERE show = $1 AND customer = $2 AND NOT sold AND reserved_until > now() RETURNING seat`,
    [show, customer],
  );
  return rows.map((row) => row.seat);
}

const [, , verb, what = '', customer = '', count = '1'] = process.argv;
if (verb === 'sell') console.log(await sell(what));
else if (verb === 'buy') console.log(JSON.stringify(await buy(what, customer)));
else console.log(JSON.stringify(await reserve(what, customer, Number(count))));
await pool.end();
