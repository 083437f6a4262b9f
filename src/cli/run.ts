import type { Hold } from '../hold/hold.ts';
import type { Locks } from '../locks.ts';
import type { Lockable } from '../primitives/lockable.ts';
import type { GuardedCommand } from './guarded-command.ts';
import { CLOSE_MS, HeldCommand } from './held-command.ts';
import { type RunOptions, type RunTerms, resolveRun } from './hold-options.ts';

/** Runs a command under a lock. Resolves to the exit code. */
export async function run(
  url: string,
  name: string,
  command: readonly string[],
  options: RunOptions,
  guard: GuardedCommand | null,
): Promise<number> {
  const terms = resolveRun(options);
  const held = new HeldCommand(name, command, terms, guard);
  return await held.execute(url, async (locks) => {
    const hold = await acquire(held, locks, name, terms);
    if (hold === null) return await held.notInTime(locks, 'lock');
    const { code } = await held.run(locks, hold);
    return (await wasTaken(hold)) ? held.lost('before the command ended') : code;
  });
}

async function acquire(held: HeldCommand, locks: Locks, name: string, terms: RunTerms): Promise<Hold | null> {
  const { waitMs } = terms;
  const lock = lockOf(locks, name, terms);
  if (waitMs === 0) return await lock.tryAcquire(held.settings);
  return await held.whileWaiting(locks, 'lock', () => lock.acquire({ ...held.settings, waitMs }));
}

/** Releases the lock. True when it had been evicted, unknown to this process. */
async function wasTaken(hold: Hold): Promise<boolean> {
  const wasTold = hold.signal.aborted;
  const release = hold.release().then(
    (released) => !released && !wasTold,
    () => false,
  );
  return await Promise.race([
    release,
    new Promise<false>((resolve) => setTimeout(resolve, CLOSE_MS, false).unref()),
  ]);
}

function lockOf(locks: Locks, name: string, { mode }: RunTerms): Lockable {
  if (mode.kind === 'exclusive') return locks.mutex(name);
  if (mode.kind === 'shared') return locks.readWriteLock(name).read;
  const semaphore = locks.semaphore(name, { permits: mode.of });
  const permits = mode.count;
  return {
    acquire: (options) => semaphore.acquire({ ...options, permits }),
    tryAcquire: (options) => semaphore.tryAcquire({ ...options, permits }),
    run: (fn, options) => semaphore.run(fn, { ...options, permits }),
    tryRun: (fn, options) => semaphore.tryRun(fn, { ...options, permits }),
  };
}
