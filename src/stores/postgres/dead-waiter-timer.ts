import type { Clock, Timer } from '../../clock.ts';
import { between } from '../shared/retry-after.ts';
import type { LeaseBatch } from './lease-batch.ts';

/** How long after an operation this process asks the server to remove dead waiters. */
const FIRST_MS = { min: 6_000, max: 9_000 };
/** A dead waiter that was found is removed by the next call after `reconnect_limit` of `migrations/`. */
const AGAIN_MS = { min: 10_500, max: 12_000 };

const REMOVE = 'SELECT holdfast.remove_dead_waiters()::text';

/** While this process uses the store, removes the waiters of dead processes from all queues. */
export class DeadWaiterTimer {
  readonly #clock: Clock;
  readonly #batch: LeaseBatch;
  #timer: Timer | null = null;
  #isClosed = false;

  constructor(clock: Clock, batch: LeaseBatch) {
    this.#clock = clock;
    this.#batch = batch;
  }

  onOperation(delayMs = FIRST_MS): void {
    if (this.#timer !== null || this.#isClosed) return;
    this.#timer = this.#clock.startTimer(between(this.#clock, delayMs), () => void this.#remove());
  }

  async #remove(): Promise<void> {
    try {
      const [row] = await this.#batch.add({ text: REMOVE, isBackground: true });
      this.#timer = null;
      if (row?.[0] !== '0') this.onOperation(AGAIN_MS);
    } catch {
      // The next operation starts it again.
      this.#timer = null;
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }
}
