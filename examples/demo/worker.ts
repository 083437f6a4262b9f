import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks, type Hold } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { Ledger } from './ledger.ts';
import { LOCK, nowMs, type Plan, ROUNDS, type Told, TTL_MS } from './story.ts';

// One of several processes that add to the same balance: read, think, write back. Without a lock,
// additions would be lost.

const [worker = '', folder = '', fate = 'none'] = process.argv.slice(2) as [string, string, Plan['fate']];
const tell = (what: Told['what'], more: Partial<Told> = {}): void => {
  process.stdout.write(`${JSON.stringify({ worker, atMs: nowMs(), what, ...more })}\n`);
};

const locks = createLocks(sqliteStore(`${folder}/locks.db`), {
  owner: worker,
  ttlMs: TTL_MS,
  waitMs: 60_000,
});
const ledger = new Ledger(`${folder}/ledger.db`);
locks.on('waiting', () => tell('waits'));
locks.on('lost', ({ how }) => tell('lost', { detail: how }));

async function add(hold: Hold, round: number): Promise<void> {
  const fence = hold.fence.toString();
  tell('holds', { fence });
  const balance = ledger.read();
  await sleep(60);
  if (round === 0 && fate !== 'none') {
    tell('midway', { fence });
    // Here the demo kills or stops this process. A careful program would look at hold.signal
    // afterwards; this one writes, and has to rely on the gate.
    await sleep(400);
  }
  try {
    ledger.write(balance + 1, hold.fence);
    tell('wrote', { fence, detail: String(balance + 1) });
  } catch (error) {
    tell('refused', { fence, detail: (error as { code: string }).code });
  }
}

for (let round = 0; round < ROUNDS; round += 1) {
  const hold = await locks.mutex(LOCK).acquire();
  await add(hold, round);
  tell('released', { fence: hold.fence.toString() });
  await hold.release();
}
await locks.close();
ledger.close();
