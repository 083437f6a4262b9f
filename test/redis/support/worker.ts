import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { redisFenceGate } from '../../../src/fence/index.ts';
import { createLocks, type Hold } from '../../../src/index.ts';
import { redisStore } from '../../../src/stores/redis/index.ts';

/**
 * A process of a test: `worker.ts URL TASK …`. It prints a line of JSON for each event, and reads one word
 * from each line.
 */
const [, , url = '', task = '', ...args] = process.argv;
const say = (what: string, details: object = {}): void => {
  const text = JSON.stringify({ what, ...details }, (_, value) =>
    typeof value === 'bigint' ? `${value}` : value,
  );
  process.stdout.write(`${text}\n`);
};
const heard: string[] = [];
let onHeard: (() => void) | null = null;
process.stdin.on('data', (data) => {
  heard.push(...data.toString().split('\n').filter(Boolean));
  onHeard?.();
});
const hear = async (word: string): Promise<void> => {
  while (!heard.includes(word)) await new Promise<void>((resolve) => (onHeard = resolve));
};

const client = new Redis(url);
client.on('error', () => {});
const locks = createLocks(redisStore(client), { waitMs: 60_000 });

const TASKS: Record<string, () => Promise<void>> = {
  /** Holds a lock until its parent says `release`. */
  async hold() {
    const [name = '', ttlMs = '30000'] = args;
    const hold = await locks.mutex(name).acquire({ ttlMs: Number(ttlMs) });
    hold.signal.addEventListener('abort', () =>
      say('lost', { how: (hold.signal.reason as { how?: string }).how }),
    );
    say('held', { fence: hold.fence, id: hold.id });
    await hear('release');
    say('released', { released: await hold.release() });
  },
  /** Holds a lock, and has waiters for it too. */
  async crowd() {
    const [name = '', count = '3', ttlMs = '1000'] = args;
    const hold = await locks.mutex(name).acquire({ ttlMs: Number(ttlMs) });
    for (let n = 0; n < Number(count); n += 1) {
      locks
        .mutex(name)
        .acquire({ ttlMs: Number(ttlMs) })
        .catch(() => {});
    }
    while ((await locks.inspect(name)).waiters.length < Number(count)) await sleep(10);
    say('held', { fence: hold.fence });
    await hear('never');
  },
  /** Adds 1 to a number in a file, many times, under a lock. */
  async count() {
    const [name = '', path = '', times = '1'] = args;
    for (let n = 0; n < Number(times); n += 1) {
      await locks.withLock(name, async (hold: Hold) => {
        const before = Number(readFileSync(path, 'utf8'));
        await sleep(1);
        hold.assertHeld();
        writeFileSync(path, `${before + 1}`);
      });
    }
    say('done');
  },
  /** Writes through a fence gate when its parent says so, also if the hold is lost by then. */
  async fencedWrite() {
    const [name = '', key = '', value = '', ttlMs = '500'] = args;
    const hold = await locks.mutex(name).acquire({ ttlMs: Number(ttlMs) });
    say('held', { fence: hold.fence });
    await hear('write');
    try {
      await redisFenceGate(client).write(name, hold.fence, { set: [key, value] });
      say('wrote', { aborted: hold.signal.aborted });
    } catch (error) {
      say('refused', { code: (error as { code?: string }).code, aborted: hold.signal.aborted });
    }
  },
};

await TASKS[task]?.();
await locks.close();
client.disconnect();
process.stdin.destroy();
