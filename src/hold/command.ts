import { setMaxListeners } from 'node:events';
import { show } from '../checks.ts';
import type { Clock } from '../clock.ts';
import { StoreError } from '../errors.ts';
import { DEFAULTS } from '../options.ts';
import { Bag, type Bagged } from './bag.ts';

/** Rounds limits up so that commands of about the same time share one signal and one timer. */
const GRID_MS = 250;
const GRID_SHORT_MS = 20;
const SHORT_MS = 1_000;

/**
 * What is sent to the store, and what becomes of it: either `onAnswer` or `onFailure` is called, once. An object and not a promise, since an uncontended
 * acquire spends most of its own time on promises. None of these may throw.
 */
export interface Command<T> extends Bagged {
  /** The time was up before it was answered. */
  isLate?: boolean;
  /** How long it may take. Those of a batch end together, but need not have begun together. */
  readonly limitMs: number;
  send(signal: AbortSignal): Promise<T>;
  onAnswer(value: T): void;
  onFailure(error: unknown): void;
  /**
   * The answer to a command whose time was up, `null` for an error: a late grant must be cleaned up, and a late confirmation is still
   * one.
   */
  onLate?: ((value: T | null) => void) | undefined;
}

/** The commands whose time is up at the same instant. */
interface Batch {
  readonly controller: AbortController;
  readonly pending: Bag<Pick<Command<unknown>, 'isLate' | 'limitMs' | 'onFailure' | 'place'>>;
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
   * that goes to `onLate`.
   */
  run<T>(
    send: (signal: AbortSignal) => Promise<T>,
    limitMs: number = DEFAULTS.commandMs,
    onLate?: (value: T | null) => void,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.start({ limitMs, send, onAnswer: resolve, onFailure: reject, onLate });
    });
  }

  /** Sends it now. Fails after its `limitMs` (or a little later) with a `StoreError` of unknown outcome. */
  start<T>(command: Command<T>): void {
    const { controller, pending } = this.#batchFor(command.limitMs);
    pending.add(command);
    sendSafely(() => command.send(controller.signal)).then(
      (value) => {
        pending.delete(command);
        if (command.isLate) command.onLate?.(value);
        else command.onAnswer(value);
      },
      (error: unknown) => {
        pending.delete(command);
        if (command.isLate) command.onLate?.(null);
        else command.onFailure(asHoldfastError(error));
      },
    );
  }

  #batchFor(limitMs: number): Batch {
    const grid = limitMs < SHORT_MS ? GRID_SHORT_MS : GRID_MS;
    const now = this.#clock.monotonicMs();
    const end = Math.ceil((now + limitMs) / grid) * grid;
    const found = this.#batches.get(end);
    if (found !== undefined) return found;
    const controller = new AbortController();
    const pending: Batch['pending'] = new Bag();
    const batch = { controller, pending };
    // One signal for many commands: their number of listeners is no leak.
    setMaxListeners(0, controller.signal);
    this.#batches.set(end, batch);
    const then = (ms: number, next: () => void): unknown => this.#clock.startTimer(ms, next);
    then(end - now, () => {
      this.#batches.delete(end);
      // After a stall of this process the answer may lie here unread.
      then(0, () => {
        const [first] = pending.all;
        if (first === undefined) return;
        controller.abort(silence(first));
        // A store that knows why there was no answer says so now.
        then(0, () => {
          for (const command of [...pending.all]) {
            command.isLate = true;
            command.onFailure(silence(command));
          }
        });
      });
    });
    return batch;
  }
}

function silence({ limitMs }: { readonly limitMs: number }): StoreError {
  return unknownOutcome(`The store did not answer within ${Math.round(limitMs)} ms`);
}

/** A store that throws where it should reject must not be told apart. */
export function sendSafely<T>(send: () => Promise<T>): Promise<T> {
  try {
    return send();
  } catch (error) {
    return Promise.reject(error);
  }
}

export function unknownOutcome(message: string, cause?: unknown): StoreError {
  return new StoreError(message, { cause, applied: 'unknown' });
}

/** Whatever else a store throws, nothing is known of what it did. */
function asHoldfastError(error: unknown): unknown {
  return CODES.test(codeOf(error)) ? error : unknownOutcome(`The store failed: ${show(error)}`, error);
}

/** An error is known by its code, not its class: a store may come from another copy of this package. */
const CODES = /^(STORE|QUORUM|LINE_FULL|MODE_MISMATCH|UNSUPPORTED|INVALID_ARGUMENT|CLOSED)$/;

/** May the command have had an effect? */
export function isUnknown(error: unknown): boolean {
  return isStoreError(error) && error.applied !== 'no';
}

export function isStoreError(error: unknown): error is StoreError {
  return /^(STORE|QUORUM)$/.test(codeOf(error));
}

export function codeOf(error: unknown): string {
  return `${(error as { code?: unknown } | null | undefined)?.code}`;
}
