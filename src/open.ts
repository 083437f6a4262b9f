import { InvalidArgumentError, UnsupportedError } from './errors.ts';
import { createLocks, type Locks } from './locks.ts';
import type { LocksOptions } from './options.ts';
import type { Store } from './store/store.ts';
import { memoryStore } from './stores/memory/memory-store.ts';

type Opener = (url: string, options: LocksOptions) => Promise<Store>;

/** Each backend is loaded when it is asked for, so that the core needs no client library. */
const OPENERS: Readonly<Record<string, Opener>> = {
  memory: async (_url, { clock }) => memoryStore({ clock }),
};

/**
 * Opens locks by a URL: `memory:`. Rejects with `InvalidArgumentError` for a URL it does not know; the text never repeats the URL, which may hold a password.
 */
export async function openLocks(url: string, options: LocksOptions = {}): Promise<Locks> {
  const scheme = typeof url === 'string' ? /^([a-z][a-z+]*):/i.exec(url)?.[1]?.toLowerCase() : undefined;
  const open =
    scheme === undefined ? undefined : Object.entries(OPENERS).find(([known]) => known === scheme)?.[1];
  if (open === undefined) {
    throw new InvalidArgumentError('url', `must begin with one of ${Object.keys(OPENERS).join(': ')}:`);
  }
  if (options.renewal === 'thread' && scheme === 'memory') {
    throw new UnsupportedError(
      'A memory store cannot be reached from another thread, so it cannot be renewed there',
    );
  }
  const { renewal: _, ...rest } = options;
  // Options are checked before anything is opened, and what was opened is closed when they fail after all.
  const store = await open(url, rest);
  try {
    return createLocks(store, rest);
  } catch (error) {
    await store.close();
    throw error;
  }
}
