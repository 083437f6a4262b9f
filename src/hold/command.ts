import { setMaxListeners } from 'node:events';
import type { Clock } from '../clock.ts';
import { HoldfastError, StoreError } from '../errors.ts';

/** Rounds limits up so that commands of about the same time share one signal and one timer. */
const GRID_MS = 250;
const GRID_SHORT_MS = 20;
const SHORT_MS = 2_000;

/** A command under way. */
class Pending {
  readonly #reject: (error: unknown) => void;
  isLate = false;

  constructor(reject: (error: unknown) => void) {
    this.#reject = reject;
  }

  giveUp(error: StoreError): void {
    this.isLate = true;
    this.#reject(error);
  }
}

/** The commands whose time is up at the same instant. */
interface Batch {
  readonly controller: AbortController;
  readonly signal: AbortSignal;
  readonly pending: Set<Pending>;
}

/**
 * Gives every command its own time limit: clients leave a command pending for ever on a link that swallows packets, so the core counts
 * the time itself and does not depend on the store to settle.
 */
export class Commands {
  readonly #clock: Clock;
  readonly #batches = new Map<number, Batch>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Settles as `send` does, or rejects with a `StoreError` of unknown outcome after `limitMs` (or a little later). An answer that comes after
   * that goes to `onLate`, because a late grant must be cleaned up and a late confirmation is still one.
   */
  run<T>(
    send: (signal: AbortSignal) => Promise<T>,
    limitMs: number,
    onLate?: (value: T | null) => void,
  ): Promise<T> {
    const batch = this.#batchFor(limitMs);
    return new Promise<T>((resolve, reject) => {
      const pending = new Pending(reject);
      batch.pending.add(pending);
      sendSafely(() => send(batch.signal)).then(
        (value) => {
          batch.pending.delete(pending);
          if (pending.isLate) onLate?.(value);
          else resolve(value);
        },
        (error: unknown) => {
          batch.pending.delete(pending);
          if (pending.isLate) onLate?.(null);
          else reject(asHoldfastError(error));
        },
      );
    });
  }

  #batchFor(limitMs: number): Batch {
    const grid = limitMs < SHORT_MS ? GRID_SHORT_MS : GRID_MS;
    const now = this.#clock.monotonicMs();
    const end = Math.ceil((now + limitMs) / grid) * grid;
    const found = this.#batches.get(end);
    if (found !== undefined) return found;
    const controller = new AbortController();
    const batch: Batch = { controller, signal: controller.signal, pending: new Set() };
    // One signal for many commands: their number of listeners is no leak.
    setMaxListeners(0, batch.signal);
    this.#batches.set(end, batch);
    this.#expireAt(end, now, batch, limitMs);
    return batch;
  }

  #expireAt(end: number, now: number, batch: Batch, limitMs: number): void {
    this.#clock.startTimer(end - now, () => {
      this.#batches.delete(end);
      if (batch.pending.size === 0) return;
      const error = new StoreError(`The store did not answer within ${Math.round(limitMs)} ms`, {
        applied: 'unknown',
      });
      batch.controller.abort(error);
      for (const pending of batch.pending) pending.giveUp(error);
      batch.pending.clear();
    });
  }
}

/** A store that throws where it should reject must not be told apart. */
export function sendSafely<T>(send: () => Promise<T>): Promise<T> {
  try {
    return send();
  } catch (error) {
    return Promise.reject(error);
  }
}

/** Whatever else a store throws, nothing is known of what it did. */
function asHoldfastError(error: unknown): HoldfastError {
  if (isHoldfastError(error)) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new StoreError(`The store failed: ${message}`, { cause: error, applied: 'unknown' });
}

/** By its code, not its class: a store may come from another copy of this package. */
function isHoldfastError(error: unknown): error is HoldfastError {
  return (
    error instanceof HoldfastError ||
    (error instanceof Error && CODES.has((error as { code?: unknown }).code))
  );
}

const CODES: ReadonlySet<unknown> = new Set([
  'STORE',
  'QUORUM',
  'LINE_FULL',
  'MODE_MISMATCH',
  'UNSUPPORTED',
  'INVALID_ARGUMENT',
  'CLOSED',
]);

/** May the command have had an effect? */
export function isUnknown(error: unknown): boolean {
  return isStoreError(error) && error.applied !== 'no';
}

export function isStoreError(error: unknown): error is StoreError {
  const code = (error as { code?: unknown } | null)?.code;
  return code === 'STORE' || code === 'QUORUM';
}
