/**
 * A process whose callers abort, time out and try while the store cannot be reached:
 * `outage-program.ts URL RUN_MS`, with --expose-gc. Prints `ready` once it has held a lock. Begins
 * to call when it reads a byte, and then prints what the calls cost.
 */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { openLocks } from '../../../src/index.ts';

const CALLERS = 60;
const PATIENCE_MS = 250;

const [url = '', runMs = ''] = process.argv.slice(2);
const locks = await openLocks(url);
await locks.withLock('before', () => {});

async function heapMb(): Promise<number> {
  // Twice, because the first collection leaves objects to finalizers.
  for (let round = 0; round < 2; round += 1) {
    globalThis.gc?.();
    await sleep(20);
  }
  return process.memoryUsage().heapUsed / 2 ** 20;
}

const kinds = [
  (name: string) => {
    const abort = new AbortController();
    setTimeout(() => abort.abort(), PATIENCE_MS);
    return locks.mutex(name).acquire({ signal: abort.signal });
  },
  (name: string) => locks.mutex(name).acquire({ waitMs: PATIENCE_MS }),
  (name: string) => locks.mutex(name).tryAcquire(),
];
let calls = 0;

async function call(n: number, untilMs: number): Promise<void> {
  while (performance.now() < untilMs) {
    calls += 1;
    const held = kinds[n % kinds.length]?.(`outage-${n}-${calls}`);
    await held?.then((hold) => hold?.release()).catch(() => {});
  }
}

console.log('ready');
await once(process.stdin, 'data');
const before = await heapMb();
const cpuBefore = process.cpuUsage();
const startedMs = performance.now();
const running = Array.from({ length: CALLERS }, (_, n) => call(n, startedMs + Number(runMs)));
await sleep(Number(runMs) - 100);
const { user, system } = process.cpuUsage(cpuBefore);
const cpuShare = (user + system) / 1_000 / (performance.now() - startedMs);
console.log(JSON.stringify({ calls, grownMb: (await heapMb()) - before, cpuShare }));
await Promise.all(running);
process.exit();
