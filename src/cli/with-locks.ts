import type { Locks } from '../locks.ts';
import { openLocks } from '../open.ts';
import { giveUpAfter, rejectAfter } from './time-limit.ts';

const OPEN_MS = 6_000;
const CLOSE_MS = 1_000;

/** Opens the store for as long as `use` takes. The library limits the time of each command. */
export async function withLocks<T>(url: string, use: (locks: Locks) => Promise<T>): Promise<T> {
  const locks = await rejectAfter(OPEN_MS, openLocks(url));
  try {
    return await use(locks);
  } finally {
    await giveUpAfter(CLOSE_MS, locks.close({ drainMs: 0 }));
  }
}
