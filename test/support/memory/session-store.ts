import { ClosedError } from '../../../src/errors.ts';
import type { Store, Waiter } from '../../../src/store/store.ts';

/** How long a hold is trusted after the last heartbeat of the session. */
const HEARTBEAT_MS = 5_000;

export interface SessionStore extends Store {
  /** The connection breaks: every hold of this session is gone at once. */
  breakSession(): Promise<void>;
}

/**
 * The memory store as a backend whose claims live as long as a session: no TTL, nothing remembered,
 * losses reported at once. It lets the core's side of rule 4 be tested without a server.
 */
export function sessionStore(inner: Store): SessionStore {
  const mine = new Map<string, { name: string; id: string }>();
  const waiters = new Map<string, Waiter>();
  let closed = false;
  const assertOpen = (): void => {
    if (closed) throw new ClosedError('This store is closed');
  };
  const endSession = async (): Promise<void> => {
    const gone = [...mine.values()];
    mine.clear();
    await Promise.all(gone.map((ref) => inner.release(ref)));
    for (const ref of gone) waiters.get(ref.id)?.wake();
  };
  return {
    traits: { lifetime: 'session', ordered: true, counting: true, remembers: false },
    onEvicted: inner.onEvicted,
    async claim(request, signal, waiter) {
      assertOpen();
      if (waiter !== undefined) waiters.set(request.id, waiter);
      // A pushed grant would count by the lease of the inner store: without one the core asks.
      const outcome = await inner.claim(
        { ...request, ttlMs: 86_400_000 },
        signal,
        waiter && { wake: () => waiter.wake() },
      );
      if (outcome.granted || request.wait) mine.set(request.id, { name: request.name, id: request.id });
      return outcome.granted ? { ...outcome, validForMs: HEARTBEAT_MS } : outcome;
    },
    async renew(ref, change) {
      assertOpen();
      const outcome = await inner.renew(ref, { ...change, ttlMs: 86_400_000 });
      return outcome.held ? { held: true, validForMs: HEARTBEAT_MS } : outcome;
    },
    async release(ref) {
      assertOpen();
      mine.delete(ref.id);
      waiters.delete(ref.id);
      return await inner.release(ref);
    },
    async evict(ref) {
      assertOpen();
      return await inner.evict(ref);
    },
    async watch(target, onChange) {
      assertOpen();
      return await inner.watch(target, onChange);
    },
    async read(name) {
      assertOpen();
      return (await inner.read(name)).map((claim) => ({ ...claim, expiresInMs: null }));
    },
    list: (prefix) => inner.list(prefix),
    breakSession: endSession,
    async close() {
      if (closed) return;
      closed = true;
      await endSession();
    },
  };
}
