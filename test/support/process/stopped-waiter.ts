import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Locks } from '../../../src/index.ts';
import { later } from '../waiting/eventually.ts';
import { compiled } from './compiled.ts';

const HOLDER = fileURLToPath(new URL('./holder.ts', import.meta.url));

/**
 * A process holds a lock, another waits for it and is stopped, and `locks` wait behind that one.
 * Resolves to how long these take to hold, in ms, after the first process has released and ended.
 */
export async function delayByStoppedWaiter(url: string, locks: Locks, name: string): Promise<number> {
  const start = () => {
    const args = ['--unhandled-rejections=strict', compiled(HOLDER), url, name, '60000'];
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    return { child, said: async () => (await lines.next()).value as string | undefined };
  };
  const [holder, waiter] = [start(), start()];
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
    await once(first.child, 'exit');
    const releasedMs = performance.now();
    const hold = await pending;
    const tookMs = performance.now() - releasedMs;
    await hold.release();
    return tookMs;
  } finally {
    for (const { child } of [holder, waiter]) child.kill('SIGKILL');
  }
}
