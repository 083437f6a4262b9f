import { ClosedError } from '../../src/errors.ts';
import type { Store } from '../../src/store/store.ts';

/** How long a hold is believed after the session's last heartbeat. */
const HEARTBEAT_MS = 5_000;

export interface SessionStore extends Store {
  /** The connection breaks: every hold of this session is gone at once. */
  breakSession(): Promise<void>;
}

/**
 * The memory store as a backend whose claims live as long as a session: no TTL, nothing remembered, loss told at once. It lets the core's side of rule 4 be tested without a
 * server.
 */
export function sessionStore(inner: Store): SessionStore {
  const mine = new Map<string, { name: string; id: string }>();
  const wakes = new Map<string, Set<() => void>>();
  let closed = false;
  const assertOpen = (): void => {
    if (closed) throw new ClosedError('This store is closed');
  };
  const endSession = async (): Promise<void> => {
    const gone = [...mine.values()];
    mine.clear();
    await Promise.all(gone.map((ref) => inner.release(ref)));
    for (const ref of gone) for (const wake of wakes.get(ref.id) ?? []) wake();
  };
  return {
    traits: { lifetime: 'session', ordered: true, counting: true, remembers: false },
    async claim(request) {
      assertOpen();
      const outcome = await inner.claim({ ...request, ttlMs: 86_400_000 });
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
      return await inner.release(ref);
    },
    async evict(ref) {
      assertOpen();
      return await inner.evict(ref);
    },
    async watch(target, wake) {
      assertOpen();
      const own = wakes.get(target.id ?? '') ?? new Set();
      wakes.set(target.id ?? '', own.add(wake));
      const watch = await inner.watch(target, wake);
      return {
        async [Symbol.asyncDispose]() {
          own.delete(wake);
          await watch[Symbol.asyncDispose]();
        },
      };
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
