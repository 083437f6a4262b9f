import type { Store } from './store.ts';

/** A lock that is read only to get an answer from the store. */
export const CONNECT_NAME = 'holdfast-connect';

/** Resolves once the server of the store has answered. */
export async function firstAnswer(store: Store, signal: AbortSignal): Promise<void> {
  if (store.connect === undefined) await store.read(CONNECT_NAME, signal);
  else await store.connect(signal);
}
