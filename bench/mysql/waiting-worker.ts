// A process with waiters for one lock: `waiting-worker.ts URL KIND WAITERS HOLD_MS`. It prints when
// each acquired the lock and when it began to release it.
import { setTimeout as sleep } from 'node:timers/promises';
import { openLocks } from 'holdfast';
import mysql from 'mysql2/promise';

const [url = '', kind = '', waiters = '0', holdMs = '0'] = process.argv.slice(2);
const NAME = 'bench-waiting';

/** Of all processes of this machine. */
const nowMs = (): number => performance.timeOrigin + performance.now();

type Take = () => Promise<() => Promise<unknown>>;

/** What people do with GET_LOCK: a connection for each waiter, which is also that of the hold. */
async function getLock(): Promise<Take> {
  return async () => {
    const connection = await mysql.createConnection(url);
    for (;;) {
      const [rows] = await connection.query('SELECT GET_LOCK(?, 10) AS got', [NAME]);
      if ((rows as { got: number }[])[0]?.got === 1) break;
    }
    return async () => {
      await connection.query('SELECT RELEASE_LOCK(?)', [NAME]);
      await connection.end();
    };
  };
}

async function holdfast(): Promise<Take> {
  const locks = await openLocks(url, { waitMs: Number.POSITIVE_INFINITY });
  return async () => {
    const hold = await locks.mutex(NAME).acquire();
    return () => hold.release();
  };
}

const take = await (kind === 'holdfast' ? holdfast : getLock)();
process.send?.('ready');
await Promise.all(
  Array.from({ length: Number(waiters) }, async (_, n) => {
    // So that the waiters of all processes stand in the queue in turn.
    await sleep(n * 150);
    const release = await take();
    const fromMs = nowMs();
    await sleep(Number(holdMs));
    process.send?.({ fromMs, toMs: nowMs() });
    await release();
  }),
);
process.exit();
