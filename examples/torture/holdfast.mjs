// Holdfast on whichever server the URL names. `remainingMs` is the local deadline of the hold.
import { openLocks } from 'holdfast';

const PERMITS = 3;

export function adapterFor(name, toUrl = (url) => url) {
  return async (env) => {
    const url = toUrl(env.url);
    const locks = await openLocks(url, { waitMs: 10_000, connect: false });
    const take = async (lockable, ttlMs) => {
      try {
        const hold = await lockable.acquire({ ttlMs });
        return { fence: hold.fence, isHeld: () => hold.remainingMs > 0, release: () => hold.release() };
      } catch (error) {
        if (error.code === 'ACQUIRE_TIMEOUT') return null;
        throw error;
      }
    };
    return {
      name,
      // The nodes of Redlock have no common queue, and sessions that wait for advisory locks poll.
      isFair: !/^redlock:|mode=advisory/.test(url),
      acquire: (lock, ttlMs) => take(locks.readWriteLock(lock).write, ttlMs),
      close: () => locks.close({ drainMs: 0 }),
      ...supported(() => locks.readWriteLock('any').read, {
        acquireShared: (lock, ttlMs) => take(locks.readWriteLock(lock).read, ttlMs),
      }),
      ...supported(() => locks.semaphore('any', { permits: PERMITS }), {
        permits: PERMITS,
        acquirePermit: (lock, ttlMs) => take(locks.semaphore(lock, { permits: PERMITS }), ttlMs),
      }),
    };
  };
}

/** A primitive that a store does not have throws when it is made. */
function supported(make, members) {
  try {
    make();
    return members;
  } catch {
    return {};
  }
}

// A session of ZooKeeper is to last as long as a hold.
export default adapterFor('holdfast', (url) =>
  url.startsWith('zookeeper:') ? `${url}?sessionMs=3000` : url,
);
