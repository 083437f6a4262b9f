// A store of your own that wraps another: it reports the commands that take long.
//   const locks = createLocks(slowLog(redisStore(client), 100, console.warn));
import type { Store } from 'holdfast';

/** The commands that are timed. Everything else is passed on as it is, also what later versions add. */
const TIMED = new Set<PropertyKey>(['connect', 'claim', 'renew', 'release', 'evict', 'read']);

export function slowLog(store: Store, slowMs: number, log: (line: string) => void): Store {
  return new Proxy(store, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== 'function') return value;
      // Bound to the store itself: its private fields are not those of the proxy.
      const method = value.bind(target);
      if (!TIMED.has(key)) return method;
      return async (...args: unknown[]): Promise<unknown> => {
        const startMs = performance.now();
        try {
          // Every argument: without its signal and its waiter a claim polls, and cannot be aborted.
          return await method(...args);
        } finally {
          const tookMs = Math.round(performance.now() - startMs);
          if (tookMs >= slowMs) log(`${String(key)} ${nameOf(args[0])} took ${tookMs} ms`);
        }
      };
    },
  });
}

/** The name of the lock: `read` gets it as it is, the other commands as part of a claim. */
function nameOf(first: unknown): string {
  return typeof first === 'string' ? first : ((first as { name?: string } | undefined)?.name ?? '');
}
