import { setTimeout as sleep } from 'node:timers/promises';
import type { Adapter, Held } from './adapter.ts';
import type { Workload } from './worker-messages.ts';
import type { WorkerOutput } from './worker-output.ts';

const TICK_MS = 15;

/** How this workload acquires: exclusively unless it has a weight. */
export function acquireOf(
  adapter: Adapter,
  workload: Workload,
  weight: number | undefined,
): Adapter['acquire'] {
  return async (lock, ttlMs) => {
    if (workload === 'permits') return (await adapter.acquirePermit?.(lock, ttlMs)) ?? null;
    if (weight !== undefined) return (await adapter.acquireShared?.(lock, ttlMs)) ?? null;
    return await adapter.acquire(lock, ttlMs);
  };
}

/** Records one acquire and its hold, from the grant to the release or the loss. */
export class HoldRecorder {
  readonly #output: WorkerOutput;
  readonly #process: number;
  readonly #lock: string;
  readonly #weight: number | undefined;
  #held: Held | null = null;
  #lastHeldAt = 0;
  #isLost = false;

  constructor(output: WorkerOutput, process: number, lock: string, weight: number | undefined) {
    this.#output = output;
    this.#process = process;
    this.#lock = lock;
    this.#weight = weight;
  }

  async acquire(call: () => Promise<Held | null>): Promise<Held | null> {
    const value = this.#weight === undefined ? {} : { value: this.#weight };
    this.#output.event(this.#process, 'invoke', 'acquire', this.#lock, value);
    try {
      this.#held = await call();
    } catch {
      this.#output.event(this.#process, 'info', 'acquire', this.#lock, value);
      return null;
    }
    const { fence } = this.#held ?? {};
    const more = { ...value, ...(fence === undefined ? {} : { fence: String(fence) }) };
    this.#lastHeldAt = this.#output.now();
    this.#output.event(this.#process, this.#held === null ? 'fail' : 'ok', 'acquire', this.#lock, {
      ...more,
      at: this.#lastHeldAt,
    });
    return this.#held;
  }

  /**
   * Whether the library says that the lock is held; a loss is recorded. The time is read before the
   * library is asked: a lock that is held now was held then.
   */
  check(): boolean {
    if (this.#isLost) return false;
    const at = this.#output.now();
    if (this.#isHeld()) {
      this.#lastHeldAt = at;
      return true;
    }
    this.#isLost = true;
    this.#output.event(this.#process, 'invoke', 'lost', this.#lock, { at: this.#lastHeldAt });
    this.#output.event(this.#process, 'ok', 'lost', this.#lock);
    return false;
  }

  /** Stays in the critical section, unless the lock is lost before. */
  async stay(forMs: number): Promise<void> {
    for (const endMs = performance.now() + forMs; this.check() && performance.now() < endMs; ) {
      this.#output.held(this.#process, this.#lastHeldAt);
      await sleep(Math.max(1, Math.min(TICK_MS, endMs - performance.now())));
    }
  }

  async release(): Promise<void> {
    const isHeld = this.check();
    if (isHeld) this.#output.event(this.#process, 'invoke', 'release', this.#lock, { at: this.#lastHeldAt });
    let type: 'ok' | 'info' = 'ok';
    try {
      await this.#held?.release();
    } catch {
      type = 'info';
    }
    if (isHeld) this.#output.event(this.#process, type, 'release', this.#lock);
  }

  #isHeld(): boolean {
    try {
      return this.#held?.isHeld() === true;
    } catch {
      return false;
    }
  }
}
