import { openLocks } from '../../../src/index.ts';

// Takes a lock that a thread renews, and ends without releasing it or closing anything.
const [, , url = ''] = process.argv;
try {
  const locks = await openLocks(url, { renewal: 'thread', commandMs: 2_000 });
  const hold = await locks.mutex('left').acquire();
  process.stdout.write(`holds for ${hold.remainingMs > 1_000}`);
} catch (error) {
  process.stdout.write(`rejected ${(error as { code: string }).code}`);
}
