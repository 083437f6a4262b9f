import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks, type Hold, type Locks } from '../../../src/index.ts';
import type { BackendKind } from '../../../src/torture/backends/backend.ts';
import type { Figures } from './figures.ts';
import { openOwn } from './stores.ts';

/**
 * A service with callers that abort, time out and try, through outages of its store. Its parent sends
 * `out` when an outage begins, `part` when a part of it has passed and `back` when it ends, and
 * reads one line of JSON for each.
 */
const [, , kind = '', library = '', url = '', callersText = '0'] = process.argv;
const CALLERS = Number(callersText);
const NAMES = 5;
const TTL_MS = 4_000;
const HEALTHY_MS = 1_000;
/** How long the callers of an outage may take to notice that it is over. */
const RECOVER_MS = 30_000;

const warnings: string[] = [];
process.on('warning', ({ name, message }) => warnings.push(`${name}: ${message}`));

const say = (message: object): void => void process.stdout.write(`${JSON.stringify(message)}\n`);
const nameOf = (n: number): string => `outage-${n % NAMES}`;
/** Half of the callers share some locks; the others ask for a new one each time. */
const nameOfCall = (n: number): string => (n % 2 === 0 ? nameOf(n) : `outage-own-${calls}`);

let isCalling = false;
let calls = 0;
let holds = 0;

async function giveBack(hold: Hold | null): Promise<void> {
  if (hold === null) return;
  holds += 1;
  await hold.release();
}

async function callOnce(locks: Locks, n: number): Promise<void> {
  const mutex = locks.mutex(nameOfCall(n));
  if (n % 3 === 0) {
    await giveBack(await mutex.tryAcquire());
  } else if (n % 3 === 1) {
    await giveBack(await mutex.acquire({ waitMs: 50 }));
  } else {
    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(), 20 + Math.random() * 60);
    try {
      await giveBack(await mutex.acquire({ signal: controller.signal }));
    } finally {
      clearTimeout(timer);
    }
  }
}

async function call(locks: Locks, n: number): Promise<void> {
  while (isCalling) {
    calls += 1;
    await callOnce(locks, n).catch(() => {});
    await sleep(50 + Math.random() * 100);
  }
}

async function figures(listeners: number): Promise<Figures> {
  // Twice, with a turn between: the second collects what finalizers have released.
  for (let round = 0; round < 2; round += 1) {
    globalThis.gc?.();
    await sleep(20);
  }
  const { user, system } = process.cpuUsage();
  const { heapUsed } = process.memoryUsage();
  return { atMs: performance.now(), heap: heapUsed, cpuMs: (user + system) / 1_000, listeners, calls, holds };
}

/** How long it takes to acquire an uncontended lock. */
async function recover(locks: Locks): Promise<number> {
  const startedMs = performance.now();
  await (await locks.mutex('outage-probe').acquire({ waitMs: RECOVER_MS })).release();
  return performance.now() - startedMs;
}

async function main(): Promise<void> {
  const own = await openOwn(kind as BackendKind, library, url);
  const locks = createLocks(own.store, { ttlMs: TTL_MS });
  await recover(locks);
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  isCalling = true;
  const idle = await figures(own.listeners());
  const callers = Array.from({ length: CALLERS }, (_, n) => call(locks, n));
  await sleep(HEALTHY_MS);
  let before = await figures(own.listeners());
  let part = before;
  say({ idle, healthy: before });
  for (;;) {
    const { value: word, done } = await lines.next();
    if (done === true || word === 'end') break;
    if (word === 'out') {
      before = await figures(own.listeners());
      part = before;
      say({ out: true });
    } else if (word === 'part') {
      const after = await figures(own.listeners());
      // The heap and the listeners are those of the whole outage, the costs those of its last part.
      say({
        before: { ...before, cpuMs: part.cpuMs, atMs: part.atMs, calls: part.calls, holds: part.holds },
        after,
      });
      part = after;
    } else {
      const recoveredMs = await recover(locks);
      say({ recoveredMs, warnings });
    }
  }
  isCalling = false;
  await Promise.all(callers);
  for (let n = 0; n < NAMES; n += 1)
    await (await locks.mutex(nameOf(n)).acquire({ waitMs: RECOVER_MS })).release();
  await locks.close();
  await own.close();
  say({ closed: true });
  process.stdin.destroy();
}

await main();
