import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { floor, holdfast, peers } from '../redis/contenders.ts';
import type { MemoryFigures } from './data.ts';

/**
 * One process with many holds and then many waiters of one contender:
 * `memory-worker.ts URL NUMBER HOLDS WAITERS`. It prints what each of them costs, in bytes.
 */
const [url = '', number = '0', holdCount = '0', waiterCount = '0'] = process.argv.slice(2);
const [holds, waiters] = [Number(holdCount), Number(waiterCount)];
const make = [floor, holdfast, ...peers][Number(number)];
if (make === undefined) throw new Error(`no contender ${number}`);
/** Claims at once while the holds are made. */
const BATCH = 100;

const admin = new Redis(url);
const serverBytes = async (): Promise<number> =>
  Number(/used_memory:(\d+)/.exec(await admin.info('memory'))?.[1]);

/** After several collections: what is kept for a moment only is not counted. */
async function heapBytes(): Promise<number> {
  for (let turn = 0; turn < 4; turn += 1) {
    await sleep(100);
    globalThis.gc?.();
  }
  return process.memoryUsage().heapUsed;
}

const contender = make(url);
// The floor cannot wait.
const isWaiting = Number(number) > 0;
/** Code is compiled, connections and subscriptions are open, and the server has its scripts. */
for (let n = 0; n < 200; n += 1) await (await contender.acquire('warm'))();
if (isWaiting) {
  const release = await contender.acquire('warm');
  const second = contender.acquire('warm');
  await sleep(100);
  await release();
  await (await second)();
}

const [heapBefore, serverBefore] = [await heapBytes(), await serverBytes()];
const held: Array<() => Promise<unknown>> = [];
for (let n = 0; n < holds; n += BATCH) {
  const batch = Array.from({ length: Math.min(BATCH, holds - n) }, (_, at) =>
    contender.acquire(`hold-${n + at}`),
  );
  held.push(...(await Promise.all(batch)));
}
const [heapHeld, serverHeld] = [await heapBytes(), await serverBytes()];
const busy = await contender.acquire('busy');
const waiting = isWaiting ? Array.from({ length: waiters }, () => contender.acquire('busy')) : [];
for (const each of waiting) each.catch(() => {});
await sleep(500);
const [heapWaiting, serverWaiting] = [await heapBytes(), await serverBytes()];
const each = (after: number, before: number, count: number): number => Math.round((after - before) / count);
const figures: MemoryFigures = {
  holdBytes: each(heapHeld, heapBefore, holds),
  waiterBytes: isWaiting ? each(heapWaiting, heapHeld, waiters) : null,
  serverHoldBytes: each(serverHeld, serverBefore, holds),
  serverWaiterBytes: isWaiting ? each(serverWaiting, serverHeld, waiters) : null,
};
console.log(JSON.stringify({ name: contender.name, ...figures }));
// Without releasing thousands of holds: the server ends with the bench.
void [held, busy];
process.exit(0);
