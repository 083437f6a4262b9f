import { systemClock } from './clock.ts';
import { connectLocks, type Locks } from './locks.ts';
import { openStore, schemeOf } from './open-store.ts';
import { type LocksOptions, resolveLocksOptions } from './options.ts';

/**
 * Opens locks by a URL: `memory:`, `sqlite:./locks.db`, `redis://host:6379/0`, `rediss://…`,
 * `redis+cluster://a,b,c`, `redis+sentinel://a,b,c/master-name`, `redlock://a,b,c,d,e`,
 * `postgres://…?mode=lease` or `?mode=advisory`, `mysql://…/database`, `etcd://a,b,c`,
 * `zookeeper://a,b,c/chroot`. The page of each store says which parameters its URL takes. Rejects
 * with `InvalidArgumentError` for a URL, a parameter of it or an option that is not known (the text
 * never repeats the URL, which may hold a password), and with `UnsupportedError`, naming the package
 * to install, when the client library is missing.
 *
 * Resolves when the store has answered once: of Redlock a majority, of a Cluster one master;
 * PostgreSQL and MySQL have their tables by then. Rejects within `commandMs` with the `StoreError`
 * that says why not, and then every connection is closed. `connect: false` leaves connecting to the
 * first call.
 */
export async function openLocks(url: string, options: LocksOptions = {}): Promise<Locks> {
  schemeOf(url);
  // A bad option is found before anything is opened.
  resolveLocksOptions(options);
  if (options.renewal !== 'thread') {
    const startedMs = (options.clock ?? systemClock).monotonicMs();
    return await connectLocks(await openStore(url, options), options, startedMs);
  }
  const { openThreadLocks } = await import('./thread/open.ts');
  return await openThreadLocks(url, options);
}
