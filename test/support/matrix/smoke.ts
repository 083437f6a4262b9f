// One cell of the matrix, as a program for any runtime: tries every primitive over one client
// library on a real server, prints what it found, and has to end by itself.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Hold, Locks } from 'holdfast';
import { eventually } from '../waiting/eventually.ts';
import { openPair, type Pair } from './smoke-clients.ts';

const [, , library = '', url = '', prefix = ''] = process.argv;
/** Long, and renewed often: a busy machine stops a process for seconds, which must not end a hold. */
const LEASE = { ttlMs: 6_000, renewEveryMs: 800 };
/** A busy machine may take long; the test of a defect takes longer. */
const PATIENCE_MS = 40_000;

function expect(isSo: boolean, what: string): void {
  if (!isSo) throw new Error(what);
}

/** A waiter on `lock`, once it is in the queue. */
async function waiterOf(locks: Locks, name: string, acquire: () => Promise<Hold>): Promise<Promise<Hold>[]> {
  let isWaiting = false;
  const stop = locks.on('waiting', (event) => {
    isWaiting ||= event.name === name;
  });
  const waiting = acquire();
  waiting.catch(() => {});
  await eventually(`a waiter for ${name}`, () => isWaiting, PATIENCE_MS);
  stop();
  // Not the promise itself: an async function would wait for it.
  return [waiting];
}

type Check = (pair: Pair, name: string) => Promise<void>;

const CHECKS: Readonly<Record<string, Check>> = {
  async mutex({ a, b }, name) {
    const first = await a.mutex(name).acquire();
    expect((await b.mutex(name).tryAcquire()) === null, 'two holders');
    const [waiting] = await waiterOf(b, name, () => b.mutex(name).acquire());
    expect(await first.release(), 'the release found nothing');
    const second = await waiting;
    expect(second !== undefined && second.fence > first.fence, 'the fence did not rise');
    second?.assertHeld();
    expect((await second?.release()) === true, 'the second release found nothing');
  },

  async readWrite({ a, b }, name) {
    const [ours, theirs] = [a.readWriteLock(name), b.readWriteLock(name)];
    const readers = [await ours.read.acquire(), await theirs.read.acquire()];
    expect((await ours.write.tryAcquire()) === null, 'a writer beside readers');
    for (const reader of readers) await reader.release();
    const writer = await theirs.write.acquire();
    expect((await ours.read.tryAcquire()) === null, 'a reader beside a writer');
    await writer.release();
  },

  async semaphore({ a, b }, name) {
    const [ours, theirs] = [a, b].map((each) => each.semaphore(name, { permits: 2 }));
    const holds = [await ours?.acquire(), await theirs?.acquire()];
    expect((await ours?.tryAcquire()) === null, 'three holders of two permits');
    await holds[0]?.release();
    const third = await theirs?.acquire();
    for (const hold of [holds[1], third]) await hold?.release();
  },

  async fence({ a, b }, name) {
    const fences: bigint[] = [];
    for (const locks of [a, b, a, b]) await locks.withLock(name, ({ fence }) => void fences.push(fence));
    expect(
      fences.every((fence, n) => n === 0 || fence > (fences[n - 1] ?? fence)),
      `the fences do not rise: ${fences}`,
    );
  },

  async once({ a, b }, name) {
    const first = await a.once(name, () => 'value');
    expect(first.ran && first.value === 'value', 'the first call did not run');
    const second = await b.once(name, () => 'again');
    expect(!second.ran && second.why === 'done', 'the second call ran');
  },

  async renewal({ a, b }, name) {
    const hold = await a.mutex(name).acquire(LEASE);
    await sleep(LEASE.ttlMs * 1.2);
    hold.assertHeld();
    expect((await b.mutex(name).tryAcquire()) === null, 'the hold was not renewed');
    await hold.release();
  },

  async eviction({ a, b }, name) {
    const hold = await a.mutex(name).acquire(LEASE);
    expect(await b.evict(name, { id: hold.id }), 'evict found nothing');
    await eventually('the loss', () => hold.signal.aborted, PATIENCE_MS);
    expect((hold.signal.reason as Error).name === 'HoldLostError', `aborted with ${hold.signal.reason}`);
    await (await b.mutex(name).acquire()).release();
  },
};

/** `ok`, `unsupported`, or what went wrong. */
async function outcomeOf(check: Check, pair: Pair, name: string): Promise<string> {
  try {
    await check(pair, name);
    return 'ok';
  } catch (error) {
    const { name: kind, message } = error as Error;
    return kind === 'UnsupportedError' ? 'unsupported' : `${kind}: ${message}`;
  }
}

async function main(): Promise<object> {
  let pair: Pair;
  try {
    pair = await openPair(library, url);
  } catch (error) {
    const { name, message } = error as Error;
    return { refused: `${name}: ${message}` };
  }
  const checks = Object.entries(CHECKS).map(
    async ([name, check]) => [name, await outcomeOf(check, pair, `${prefix}:${name}`)] as const,
  );
  const outcomes = Object.fromEntries(await Promise.all(checks));
  await Promise.all([pair.a.close(), pair.b.close()]);
  await pair.close();
  return { checks: outcomes };
}

// A process that something keeps alive after this line has not been closed.
console.log(JSON.stringify(await main()));
