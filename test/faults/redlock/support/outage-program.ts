import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createLocks } from '../../../../src/index.ts';
import { redlockStore } from '../../../../src/stores/redis/index.ts';
import { type Library, openClient } from '../../../support/clients/redis-clients.ts';

// Twenty callers that acquire, try, time out and abort. Measures itself while all nodes are up and, when the
// parent says that one is down, without that node.
const [, , library = '', seconds = '', ...urls] = process.argv;
const opened = await Promise.all(urls.map((url) => openClient(library as Library, url)));
const locks = createLocks(redlockStore(opened.map(({ client }) => client)));
let isOver = false;
let served = 0;

async function call(n: number): Promise<void> {
  for (let turn = 0; !isOver; turn += 1) {
    const lock = locks.mutex(`${n % 4 === 0 ? 'shared' : `own ${n}`}`);
    const controller = new AbortController();
    if (n % 4 === 1) setTimeout(() => controller.abort(), turn % 20);
    const waitMs = n % 4 === 2 ? 0 : 200;
    const hold = await lock.acquire({ waitMs, signal: controller.signal }).catch(() => null);
    if (hold !== null) served += 1;
    await hold?.release().catch(() => false);
    await sleep(2);
  }
}

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;
const callers = Array.from({ length: 20 }, (_, n) => call(n));

/** The heap after this time in MB, the processor time of one call in ms, and the holds a second. */
async function measured(ms: number): Promise<{ heapMb: number; cpuMs: number; rate: number }> {
  const [before, cpu, startedMs] = [served, process.cpuUsage(), performance.now()];
  await sleep(ms);
  const { user, system } = process.cpuUsage(cpu);
  const calls = served - before;
  const rate = (calls * 1_000) / (performance.now() - startedMs);
  gc();
  const heapMb = process.memoryUsage().heapUsed / 2 ** 20;
  return { heapMb, cpuMs: (user + system) / 1_000 / Math.max(calls, 1), rate };
}

await measured(1_000);
const up = await measured(2_000);
process.stdout.write('up\n');
await once(process.stdin, 'data');
const down = await measured(Number(seconds) * 1_000);
isOver = true;
await Promise.all(callers);
// There are no more calls: what is measured now is the background work of the store.
const cpu = process.cpuUsage();
await sleep(2_000);
const { user, system } = process.cpuUsage(cpu);
process.stdout.write(`${JSON.stringify({ up, down, idleShare: (user + system) / 2_000_000 })}\n`);
process.exit(0);
