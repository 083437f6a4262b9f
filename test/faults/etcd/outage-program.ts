import { setTimeout as sleep } from 'node:timers/promises';
import { type Hold, type Locks, openLocks } from '../../../src/index.ts';

// `outage-program.ts TASK URL`: an ordinary program that only its pending calls keep alive.
const [, , task = '', url = ''] = process.argv;
const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** Waits until the test has broken the connection. */
async function whenBroken(): Promise<void> {
  say('ready');
  await new Promise((resolve) => process.stdin.once('data', resolve));
  process.stdin.pause();
  process.stdin.unref?.();
}

/** Awaits every kind of call, one after the other, and prints how each has settled. */
async function pendingCalls(locks: Locks): Promise<void> {
  const hold = (name: string): Promise<Hold> => locks.mutex(`${name}-${process.pid}`).acquire();
  const [extended, released] = [await hold('extended'), await hold('released')];
  await whenBroken();
  const options = { waitMs: 1_500 };
  const calls: Record<string, () => Promise<unknown>> = {
    acquire: () => locks.mutex('a').acquire(options),
    tryAcquire: () => locks.mutex('a').tryAcquire(),
    run: () => locks.mutex('a').run(() => {}, options),
    once: () => locks.once('a', () => {}),
    take: () => locks.rateLimit('rate', { permits: 1, perMs: 60_000 }).take(1, options),
    extend: () => extended.extend(60_000),
    inspect: () => locks.inspect('a'),
    release: () => released.release(),
    close: () => locks.close({ drainMs: 0 }),
  };
  for (const [name, call] of Object.entries(calls)) {
    const result = await call().then(
      () => 'ok',
      (error: { code?: unknown }) => error.code ?? String(error),
    );
    say(`${name} ${result}`);
  }
}

/**
 * Callers that abort, time out and try while nothing answers. Prints by how much the heap has
 * grown, in MB, and which share of a core the callers took.
 */
async function callers(locks: Locks): Promise<void> {
  await whenBroken();
  const endMs = performance.now() + 12_000;
  const isOver = (): boolean => performance.now() > endMs;
  const caller = async (call: () => Promise<unknown>): Promise<void> => {
    while (!isOver()) {
      await call().catch(() => {});
      await sleep(20);
    }
  };
  const heapMb = (): number => {
    globalThis.gc?.();
    return process.memoryUsage().heapUsed / 2 ** 20;
  };
  let n = 0;
  const lock = () => locks.mutex(`callers-${n++ % 500}`);
  const kinds = [
    () => lock().acquire({ signal: AbortSignal.timeout(50) }),
    () => lock().acquire({ waitMs: 100 }),
    () => lock().tryAcquire({ signal: AbortSignal.timeout(50) }),
  ];
  const all = Promise.all(kinds.flatMap((kind) => Array.from({ length: 20 }, () => caller(kind))));
  await sleep(4_000);
  const [startMb, startCpu, startMs] = [heapMb(), process.cpuUsage(), performance.now()];
  await all;
  const { user, system } = process.cpuUsage(startCpu);
  const share = (user + system) / 1_000 / (performance.now() - startMs);
  say(`grown ${(heapMb() - startMb).toFixed(1)} share ${share.toFixed(2)} calls ${n}`);
  await locks.close({ drainMs: 0 });
}

async function main(): Promise<void> {
  const locks = await openLocks(url, { ttlMs: 30_000 });
  await (task === 'pending' ? pendingCalls(locks) : callers(locks));
  say('done');
}

main().catch((error: unknown) => say(`failed: ${error}`));
