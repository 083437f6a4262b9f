// A cached value that many processes need: one of them loads it, the others use the stale value.
// Run: REDIS_URL=redis://localhost:6379 node --import tsx examples/cache-refresh.ts https://example.org/price
import { createLocks } from 'holdfast';
import { redisStore } from 'holdfast/redis';
import { Redis } from 'ioredis';

interface Entry {
  readonly value: string;
  readonly freshUntilMs: number;
}
type Load = (signal: AbortSignal) => Promise<string>;

const FRESH_MS = Number(process.env.FRESH_MS ?? 60_000);
const STALE_MS = 3_600_000;
const client = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const locks = createLocks(redisStore(client), { waitMs: 60_000 }); // longer than a load takes

async function cached(key: string, load: Load): Promise<string> {
  const entry = await read(key);
  if (entry !== null && isFresh(entry)) return entry.value;
  const lock = locks.mutex(`fill:${key}`);
  if (entry !== null) {
    const outcome = await lock.tryRun((hold) => fill(key, load, hold.signal));
    return outcome.ran ? outcome.value : entry.value; // another process loads it
  }
  // There is no stale value: wait, and check again before loading.
  return await lock.run(async (hold) => (await read(key))?.value ?? (await fill(key, load, hold.signal)));
}

async function fill(key: string, load: Load, signal: AbortSignal): Promise<string> {
  const found = await read(key);
  if (found !== null && isFresh(found)) return found.value; // filled between our look and our lock
  const value = await load(signal);
  const entry: Entry = { value, freshUntilMs: Date.now() + FRESH_MS };
  await client.set(key, JSON.stringify(entry), 'PX', FRESH_MS + STALE_MS);
  return value;
}

const isFresh = (entry: Entry): boolean => Date.now() < entry.freshUntilMs;

async function read(key: string): Promise<Entry | null> {
  const text = await client.get(key);
  return text === null ? null : JSON.parse(text);
}

const origin = process.argv[2] ?? 'https://example.org/price';
const load: Load = async (signal) => await (await fetch(origin, { signal })).text();
const requests = Array.from({ length: 10 }, async () => console.log(await cached('price', load)));
await Promise.all(requests);
await locks.close();
client.disconnect();
