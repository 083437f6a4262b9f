import { ClosedError } from '../../../src/errors.ts';
import type { Store } from '../../../src/store/store.ts';

/**
 * A connection of its own to a memory store, as another process would have: closing it keeps the
 * data.
 */
export function connectionTo(store: Store): Store {
  let closed = false;
  const open = async (): Promise<Store> => {
    if (closed) throw new ClosedError('This store is closed');
    return store;
  };
  return {
    traits: store.traits,
    onEvicted: store.onEvicted,
    claim: async (request, signal, waiter) => (await open()).claim(request, signal, waiter),
    renew: async (ref, change) => (await open()).renew(ref, change),
    release: async (ref) => (await open()).release(ref),
    evict: async (ref) => (await open()).evict(ref),
    watch: async (target, wake) => (await open()).watch(target, wake),
    read: async (name) => (await open()).read(name),
    list: (prefix) => store.list(prefix),
    close: async () => {
      closed = true;
    },
  };
}
