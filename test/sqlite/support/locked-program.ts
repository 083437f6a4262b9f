import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks, type Hold } from '../../../src/index.ts';
import { sqliteStore } from '../../../src/stores/sqlite/index.ts';

// Ordinary programs: while the file is locked, only the pending call keeps them running. Each prints at
// its end that it got there.
const [, , path = '', task = '', forMs = '0'] = process.argv;
const locks = createLocks(sqliteStore(path), { waitMs: 60_000 });
const name = `locked ${task}`;

/** Prepared while the file is free; what it returns is called once another process has locked it. */
const tasks: Record<string, () => Promise<() => unknown>> = {
  acquire: async () => () => locks.mutex(name).acquire(),
  tryAcquire: async () => () => locks.mutex(name).tryAcquire(),
  run: async () => () => locks.mutex(name).run(async () => {}),
  all: async () => () => locks.all([name, `${name} too`]).run(async () => {}),
  once: async () => () => locks.once(name, () => 1),
  take: async () => () => locks.rateLimit(name, { permits: 1, perMs: 1_000 }).take(),
  inspect: async () => () => locks.inspect(name),
  async evict() {
    const { id } = await held();
    return () => locks.evict(name, { id });
  },
  async extend() {
    const hold = await held();
    return () => hold.extend();
  },
  async release() {
    const hold = await held();
    return () => hold.release();
  },
  async close() {
    await held();
    return () => locks.close({ drainMs: 0 });
  },
  open: async () => () => createLocks(sqliteStore(path)).mutex(name).acquire(),
  outage: async () => () => outage(Number(forMs)),
};

function held(): Promise<Hold> {
  return locks.mutex(name).acquire({ renew: false, ttlMs: 60_000 });
}

/** Callers that abort, that run out of time and that only try, without end; says what the heap comes to. */
async function outage(ms: number): Promise<void> {
  const endMs = performance.now() + ms;
  const repeat = async (call: (n: number) => Promise<unknown>): Promise<void> => {
    for (let n = 0; performance.now() < endMs; n += 1) await call(n).catch(() => {});
  };
  const heapMb = (): number => {
    globalThis.gc?.();
    return process.memoryUsage().heapUsed / 2 ** 20;
  };
  const callers = Array.from({ length: 50 }, (_, caller) => [
    repeat((n) => locks.mutex(`a ${caller} ${n}`).acquire({ signal: AbortSignal.timeout(20) })),
    repeat((n) => locks.mutex(`w ${caller} ${n}`).acquire({ waitMs: 50 })),
    repeat((n) => locks.mutex(`t ${caller} ${n}`).tryAcquire()),
  ]).flat();
  await sleep(2_000);
  const beforeMb = heapMb();
  const before = process.cpuUsage();
  const grownMb: number[] = [];
  while (performance.now() < endMs) {
    await sleep(1_000);
    grownMb.push(Math.round(heapMb() - beforeMb));
  }
  const { user, system } = process.cpuUsage(before);
  process.stdout.write(`${JSON.stringify({ beforeMb, grownMb, cpuMs: (user + system) / 1_000 })}\n`);
  await Promise.all(callers);
}

async function main(): Promise<void> {
  const call = await tasks[task]?.();
  process.stdout.write('ready\n');
  await once(process.stdin, 'data');
  process.stdin.destroy();
  await call?.();
  process.stdout.write('done\n');
}

main().catch((error: { code?: string }) => process.stdout.write(`rejected with ${error.code}\n`));
