import { createLocks } from 'holdfast';
import { sqliteStore } from 'holdfast/sqlite';

// One process. `pass`: takes and releases the lock as often as its argument says, and prints when.
// `wait`: waits in the queue until it is killed.

const [path = '', verb = '', times = '0'] = process.argv.slice(2);
const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;
const locks = createLocks(sqliteStore(path), { waitMs: 300_000 });
const say = (message: object): void => void process.stdout.write(`${JSON.stringify(message)}\n`);

if (verb === 'wait') {
  locks.on('waiting', () => say({ waiting: true }));
  await locks.mutex('held').acquire();
} else {
  const turns: { fromMs: number; toMs: number }[] = [];
  say({ ready: true });
  for (let n = 0; n < Number(times); n += 1) {
    const hold = await locks.mutex('passed on').acquire();
    const fromMs = nowMs();
    await new Promise((resolve) => setTimeout(resolve, 2));
    turns.push({ fromMs, toMs: nowMs() });
    await hold.release();
  }
  say({ turns });
  await locks.close();
}
