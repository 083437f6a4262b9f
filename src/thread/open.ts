import { threadClock } from '../clock.ts';
import { InvalidArgumentError, UnsupportedError } from '../errors.ts';
import { connectLocks, type Locks } from '../locks.ts';
import { openStore, schemeOf } from '../open-store.ts';
import { DEFAULTS, type LocksOptions } from '../options.ts';
import type { Store } from '../store/store.ts';
import { ownFile } from '../stores/shared/installed.ts';
import { threadProgram } from './program-text.ts';
import { RenewalThread } from './renewal-thread.ts';
import { SharedHeader } from './shared-slots.ts';
import { StoreBesideThread } from './store-beside-thread.ts';
import { ThreadRenewals } from './thread-renewals.ts';
import { ThreadStore } from './thread-store.ts';

/** For how long the thread renews without a turn of the event loop. */
const WITHOUT_TURN_MS = 600_000;

/** A database in memory belongs to the connection that opened it. */
const SQLITE_IN_MEMORY = /^sqlite:(?::|%3a)memory(?::|%3a)$/i;

/** Opens locks by a URL whose holds are renewed by a thread. */
export async function openThreadLocks(
  url: string,
  options: LocksOptions,
  withoutTurnMs = WITHOUT_TURN_MS,
): Promise<Locks> {
  if (schemeOf(url) === 'memory')
    throw new UnsupportedError(
      "the locks of memory: are in this process, where a thread cannot reach them; use renewal: 'inline'",
    );
  if (options.clock !== undefined)
    throw new InvalidArgumentError(
      'clock',
      "must be left out with renewal: 'thread', which runs in real time",
    );
  const startedMs = threadClock.monotonicMs();
  const header = new SharedHeader();
  header.setTurn(threadClock);
  const thread = new RenewalThread(threadProgram(), {
    url,
    file: ownFile(),
    commandMs: options.commandMs ?? DEFAULTS.commandMs,
    header: header.buffer,
    withoutTurnMs,
  });
  try {
    const store = await storeOver(thread, url, header);
    const settings = { ...options, clock: threadClock };
    return await connectLocks(store, settings, startedMs, (core) => new ThreadRenewals(core, thread, header));
  } catch (error) {
    await thread.end();
    throw error;
  }
}

async function storeOver(thread: RenewalThread, url: string, header: SharedHeader): Promise<Store> {
  const askedMs = threadClock.monotonicMs();
  const opened = await thread.open();
  if (opened.monotonicMs < askedMs || opened.monotonicMs > threadClock.monotonicMs())
    throw new UnsupportedError("The threads of this runtime have no clock in common: use renewal: 'inline'");
  // Any connection can renew a lease of the other stores, and their uncontended acquire is so fast
  // that messages to the thread and back would show.
  const livesInThread =
    opened.traits.lifetime === 'session' || schemeOf(url) === 'etcd' || SQLITE_IN_MEMORY.test(url);
  if (livesInThread) return new ThreadStore(thread, opened, header);
  return new StoreBesideThread(await openStore(url, {}), thread);
}
