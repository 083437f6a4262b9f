import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Locks } from '../../../src/index.ts';
import { eventually } from '../waiting/eventually.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** The heap in use after a garbage collection. */
export async function heapMb(): Promise<number> {
  for (let round = 0; round < 2; round += 1) {
    collectGarbage();
    // Finalizers run in a later turn, and what they let go of is collected after that.
    await sleep(20);
  }
  collectGarbage();
  return process.memoryUsage().heapUsed / 2 ** 20;
}

/** The share of a core that this process uses during the work. */
async function cpuShare(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  const started = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(started);
  return (user + system) / 1_000 / (performance.now() - startedMs);
}

/** Half of the calls claim one lock, the others a lock of their own. */
export const sameOrOwn = (_kind: string, call: number): string => (call % 2 === 0 ? 'same' : `own-${call}`);

/**
 * The share of a core that this process uses while these callers call. Measured again when it is not
 * below the limit: a busy host bills a process for time that it did not get, for seconds at most.
 */
export async function cpuShareOf(begin: () => () => Promise<unknown>, limit: number): Promise<number> {
  const end = begin();
  await sleep(1_000);
  let least = Number.POSITIVE_INFINITY;
  for (let parts = 0; parts < 4 && least >= limit; parts += 1)
    least = Math.min(least, await cpuShare(() => sleep(2_000)));
  await end();
  return least;
}

/**
 * How many megabytes the calls of `forMs` have left on the heap. Both measurements are made when
 * every call has settled: the number of calls that are pending depends on how busy the machine is,
 * and each takes some kilobytes.
 */
export async function leftBehindMb(begin: () => () => Promise<void>, forMs: number): Promise<number> {
  const call = async (ms: number): Promise<void> => {
    const end = begin();
    await sleep(ms);
    await end();
  };
  // What is made once and kept, such as compiled code, is not left behind.
  await call(1_500);
  const beforeMb = await heapMb();
  await call(forMs);
  return (await heapMb()) - beforeMb;
}

/**
 * Callers that abort, time out or only try, each again and again, `pauseMs` after the last call.
 * The result ends them, and resolves when every call has settled.
 */
export function callers(
  locks: Locks,
  each: number,
  everyMs: number,
  nameOf: (kind: string, call: number) => string = (kind, call) => `${kind}-${call}`,
  pauseMs = 0,
): () => Promise<void> {
  const ended = new AbortController();
  const pending = new Set<Promise<unknown>>();
  let calls = 0;
  const repeat = async (call: () => Promise<unknown>): Promise<void> => {
    while (!ended.signal.aborted) {
      calls += 1;
      const settled = call()
        .catch(() => {})
        .finally(() => pending.delete(settled));
      pending.add(settled);
      await Promise.race([settled, sleep(everyMs * 4)]);
      if (pauseMs > 0) await sleep(pauseMs);
    }
  };
  const kinds = [
    () => locks.mutex(nameOf('abort', calls)).acquire({ signal: AbortSignal.timeout(everyMs) }),
    () => locks.mutex(nameOf('time-out', calls)).acquire({ waitMs: everyMs }),
    () => locks.mutex(nameOf('try', calls)).tryAcquire({ signal: AbortSignal.timeout(everyMs) }),
  ];
  const all = Array.from({ length: each }, () => kinds.map(repeat)).flat();
  return async () => {
    ended.abort();
    await Promise.all(all);
    await Promise.all(pending);
  };
}

/** The same callers for each of these. */
export function callersOfAll(
  all: Iterable<Locks>,
  each: number,
  everyMs: number,
  nameOf?: (kind: string, call: number) => string,
): () => Promise<void> {
  const ends = [...all].map((locks) => callers(locks, each, everyMs, nameOf));
  return async () => void (await Promise.all(ends.map((end) => end())));
}

/** Resolves when a lock can be acquired and released. */
export async function worksAgain(locks: Locks, name: string): Promise<void> {
  await eventually(`${name}: a lock is granted again`, () =>
    locks
      .mutex(name)
      .run(() => true)
      .catch(() => false),
  );
}

/** Asks for 200 locks. Each result says whether the lock was held or the claim was given up. */
export function askForMany(locks: Locks, prefix: string, signal: AbortSignal): Promise<string>[] {
  return Array.from({ length: 200 }, (_, n) =>
    locks
      .mutex(`${prefix}-${n}`)
      .acquire({ signal })
      .then(
        () => 'held',
        () => 'given up',
      ),
  );
}
