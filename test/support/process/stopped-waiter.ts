import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Locks } from '../../../src/index.ts';
import { eventually, later } from '../waiting/eventually.ts';
import { closed } from './closed.ts';
import { compiled } from './compiled.ts';

const HOLDER = fileURLToPath(new URL('./holder.ts', import.meta.url));

function startHolder(url: string, name: string) {
  const args = ['--unhandled-rejections=strict', compiled(HOLDER), url, name, '60000'];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const said = async (): Promise<string> => {
    const { done, value } = await lines.next();
    if (done === true) throw new Error('the process has ended');
    return value;
  };
  return { child, said, ended: closed(child) };
}

/**
 * A process holds a lock, another waits for it and is paused, and `locks` wait behind that one.
 * Resolves to how long these take to hold, in ms, after the first process has released and ended.
 */
export async function delayByStoppedWaiter(url: string, locks: Locks, name: string): Promise<number> {
  const [holder, waiter] = [startHolder(url, name), startHolder(url, name)];
  try {
    const isHeldBy = async (one: typeof holder, other: typeof holder): Promise<typeof holder> => {
      await Promise.all([one.said(), other.said()]);
      return await Promise.race([one.said().then(() => one), other.said().then(() => other)]);
    };
    const first = await isHeldBy(holder, waiter);
    const second = first === holder ? waiter : holder;
    // It has been refused, and is subscribed.
    await sleep(1_500);
    const pending = later(locks.mutex(name).acquire({ waitMs: 90_000 }));
    await sleep(500);
    second.child.kill('SIGSTOP');
    await sleep(200);
    first.child.stdin.write('release\n');
    await first.ended;
    const releasedMs = performance.now();
    const hold = await pending;
    const tookMs = performance.now() - releasedMs;
    await hold.release();
    return tookMs;
  } finally {
    for (const { child } of [holder, waiter]) child.kill('SIGKILL');
  }
}

/**
 * A process that waits for a lock is paused until `locks` hold the lock in its place, and then
 * resumes. `locks` release before that, or some time after it. Resolves to how long the process
 * takes to hold the lock that is free, in ms.
 */
export async function delayAfterResume(
  url: string,
  locks: Locks,
  name: string,
  isFreed: 'before it goes on' | 'after it went on',
): Promise<number> {
  const first = await locks.mutex(name).acquire();
  const waiter = startHolder(url, name);
  try {
    await waiter.said();
    await eventually('it waits', async () => (await locks.inspect(name)).waiters.length === 1);
    const pending = later(locks.mutex(name).acquire({ waitMs: 90_000 }));
    // Both are subscribed.
    await sleep(1_500);
    waiter.child.kill('SIGSTOP');
    await first.release();
    const hold = await pending;
    if (isFreed === 'before it goes on') {
      await hold.release();
      waiter.child.kill('SIGCONT');
    } else {
      waiter.child.kill('SIGCONT');
      await sleep(1_500);
      await hold.release();
    }
    const freeMs = performance.now();
    await waiter.said();
    return performance.now() - freeMs;
  } finally {
    waiter.child.kill('SIGKILL');
  }
}

/**
 * Two claims of `locks` wait for one lock, with two processes between them, of which the second is
 * stopped. The first claim is granted and released, then the first process holds for `heldMs`,
 * releases and ends. Resolves to how long the second claim takes to hold from then on, in ms.
 */
export async function delayOfSecondWaiter(
  url: string,
  locks: Locks,
  name: string,
  heldMs: number,
): Promise<number> {
  const children: ReturnType<typeof startHolder>['child'][] = [];
  const start = (): ReturnType<typeof startHolder> => {
    const holder = startHolder(url, name);
    children.push(holder.child);
    return holder;
  };
  const waiting = (count: number): Promise<void> =>
    eventually(`${count} wait`, async () => (await locks.inspect(name)).waiters.length === count);
  try {
    const hold = await locks.mutex(name).acquire();
    const first = later(locks.mutex(name).acquire({ waitMs: 90_000 }));
    await waiting(1);
    const between = start();
    await waiting(2);
    const stopped = start();
    await waiting(3);
    const second = later(locks.mutex(name).acquire({ waitMs: 90_000 }));
    await waiting(4);
    // All are subscribed.
    await sleep(1_500);
    stopped.child.kill('SIGSTOP');
    await hold.release();
    await (await first).release();
    await between.said();
    await between.said();
    await sleep(heldMs);
    between.child.stdin.write('release\n');
    await between.ended;
    const releasedMs = performance.now();
    const got = await second;
    const tookMs = performance.now() - releasedMs;
    await got.release();
    return tookMs;
  } finally {
    for (const child of children) child.kill('SIGKILL');
  }
}
