import type { ClaimOutcome, ClaimRequest, Store, Waiter } from '../store/store.ts';
import { WrappedStore } from '../store/wrapped-store.ts';
import type { RenewalThread } from './renewal-thread.ts';

/**
 * A store of the process whose claims the thread renews over a connection of its own. A message to
 * a thread and back takes half as long as an uncontended acquire on Redis, so only renewals go
 * there.
 */
export class StoreBesideThread extends WrappedStore {
  readonly #thread: RenewalThread;

  constructor(store: Store, thread: RenewalThread) {
    super(store);
    this.#thread = thread;
  }

  override async connect(signal: AbortSignal): Promise<void> {
    await Promise.all([super.connect(signal), this.#thread.call('connect', [], signal)]);
  }

  override claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    // Without its thread the hold would not be renewed.
    if (this.#thread.failure !== null) return Promise.reject(this.#thread.failure);
    return super.claim(request, signal, waiter);
  }

  override async close(): Promise<void> {
    await Promise.all([super.close(), this.#thread.end()]);
  }
}
