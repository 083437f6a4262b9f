// Pays an order once, however many workers try. A worker that was paused for longer than its lock
// lasted is refused by PostgreSQL. Run: DATABASE_URL=postgres://localhost/shop
// PAYMENTS_URL=https://payments.example/charges node --import tsx examples/pay-once.ts 42
import { type Hold, openLocks, StaleFenceError } from 'holdfast';
import { postgresFenceGate } from 'holdfast/fence';
import pg from 'pg';

const url = process.env.DATABASE_URL ?? 'postgres://localhost/shop';
const pool = new pg.Pool({ connectionString: url });
const locks = await openLocks(url, { ttlMs: Number(process.env.TTL_MS ?? 30_000) });

async function pay(order: string): Promise<string> {
  return await locks.withLock(`order:${order}`, async (hold) => {
    const { rows } = await pool.query('SELECT amount, receipt FROM orders WHERE id = $1', [order]);
    if (rows[0].receipt !== null) return 'was paid before';
    const receipt = await charge(order, rows[0].amount);
    await record(order, receipt, hold);
    return 'paid';
  });
}

/**
 * With the same key, the provider charges once, however often it is asked. The signal of the hold is
 * not passed: a charge that is aborted on its way may have been made.
 */
async function charge(order: string, amount: number): Promise<string> {
  const response = await fetch(process.env.PAYMENTS_URL ?? 'https://payments.example/charges', {
    method: 'POST',
    headers: { 'Idempotency-Key': `order-${order}` },
    body: JSON.stringify({ amount }),
  });
  if (!response.ok) throw new Error(`The payment of order ${order} failed: ${response.status}`);
  return await response.text();
}

/** The fence is checked in the transaction that writes: it commits or rolls back with the write. */
async function record(order: string, receipt: string, hold: Hold): Promise<void> {
  const tx = await pool.connect();
  try {
    await tx.query('BEGIN');
    await postgresFenceGate(tx).check(`order:${order}`, hold.fence);
    const unpaid = 'UPDATE orders SET receipt = $2 WHERE id = $1 AND receipt IS NULL';
    const { rowCount } = await tx.query(unpaid, [order, receipt]);
    // An earlier holder may have recorded the payment since this one has read the order.
    if (rowCount === 1)
      await tx.query('INSERT INTO ledger (order_id, receipt) VALUES ($1, $2)', [order, receipt]);
    await tx.query('COMMIT');
  } catch (error) {
    await tx.query('ROLLBACK');
    throw error;
  } finally {
    tx.release();
  }
}

try {
  console.log(await pay(process.argv[2] ?? '42'));
} catch (error) {
  if (!(error instanceof StaleFenceError)) throw error;
  console.log('refused: a later holder of the lock has written');
} finally {
  await locks.close();
  await pool.end();
}
