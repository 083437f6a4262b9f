/**
 * One listener for each signal, however many waits share it: Node.js warns of a leak at the
 * eleventh, and removing a listener from an event target takes time in proportion to their number.
 */
const CALLBACKS = new WeakMap<AbortSignal, Set<() => void>>();

function onSignal(this: AbortSignal): void {
  const callbacks = CALLBACKS.get(this);
  CALLBACKS.delete(this);
  for (const each of [...(callbacks ?? [])]) each();
}

function listenTo(signal: AbortSignal): Set<() => void> {
  const callbacks = new Set<() => void>();
  CALLBACKS.set(signal, callbacks);
  signal.addEventListener('abort', onSignal, { once: true });
  return callbacks;
}

/**
 * Calls `callback` once when the signal, if there is one, aborts. The returned function removes it.
 */
export function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (signal === undefined) return () => {};
  const callbacks = CALLBACKS.get(signal) ?? listenTo(signal);
  callbacks.add(callback);
  return () => {
    if (!callbacks.delete(callback) || callbacks.size > 0) return;
    CALLBACKS.delete(signal);
    signal.removeEventListener('abort', onSignal);
  };
}
