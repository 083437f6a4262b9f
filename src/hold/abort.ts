/**
 * One listener for each signal, however many waits share it: Node.js warns of a leak at the eleventh, and removing one of thousands
 * from an event target takes as long as there are listeners.
 */
const FANS = new WeakMap<AbortSignal, Fan>();

interface Fan {
  readonly callbacks: Set<() => void>;
  readonly listener: () => void;
}

/** Calls `callback` once when the signal, if there is one, aborts. The result stops that. */
export function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (signal === undefined) return () => {};
  let fan = FANS.get(signal);
  if (fan === undefined) {
    const callbacks = new Set<() => void>();
    const listener = (): void => {
      FANS.delete(signal);
      for (const each of [...callbacks]) each();
      callbacks.clear();
    };
    fan = { callbacks, listener };
    FANS.set(signal, fan);
    signal.addEventListener('abort', listener, { once: true });
  }
  const { callbacks, listener } = fan;
  callbacks.add(callback);
  return () => {
    if (!callbacks.delete(callback) || callbacks.size > 0 || FANS.get(signal)?.callbacks !== callbacks)
      return;
    FANS.delete(signal);
    signal.removeEventListener('abort', listener);
  };
}
