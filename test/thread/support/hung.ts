import { existsSync, writeSync } from 'node:fs';
import { openThreadLocks } from '../../../src/thread/open.ts';

/**
 * Blocks its event loop for longer than its renewal thread tolerates. Arguments: the URL, after how
 * long the thread takes the process for hung, a file that ends the block when it exists, and what the
 * process has of the lock meanwhile: it `waits` in the queue, its claim is `pending`, or it `holds`
 * the lock. Says `blocks` before, and afterwards what has become of the lock.
 */
const [, , url = '', withoutTurnMs = '', endFile = '', state = ''] = process.argv;
const say = (text: string): void => void writeSync(1, `${text}\n`);
const block = (): void => {
  say('blocks');
  const never = new Int32Array(new SharedArrayBuffer(4));
  while (!existsSync(endFile)) Atomics.wait(never, 0, 0, 100);
  say('continues');
};

const locks = await openThreadLocks(url, { ttlMs: 2_000, waitMs: 60_000 }, Number(withoutTurnMs));
const mutex = locks.mutex(state);
if (state === 'holds') {
  const hold = await mutex.acquire();
  block();
  say(hold.signal.aborted ? 'lost' : 'held');
} else {
  const waiting = new Promise<void>((resolve) => locks.on('waiting', () => resolve()));
  const acquired = mutex.acquire();
  if (state === 'waits') await waiting;
  block();
  const hold = await acquired;
  hold.assertHeld();
  say(`fence ${hold.fence}`);
  await hold.release();
}
await locks.close();
