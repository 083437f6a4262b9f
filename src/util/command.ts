import { setMaxListeners } from 'node:events';
import { show } from '../checks.ts';
import type { Clock } from '../clock.ts';
import type { StoreError } from '../errors.ts';
import { DEFAULTS } from '../options.ts';
import { isDefinite, isStoreError, unknownOutcome } from './error-code.ts';
import { type Indexed, UnorderedSet } from './unordered-set.ts';

/** Time limits are rounded up to a grid, so that commands of one batch share a timer and a signal. */
const GRID_MS = 250;
const SHORT_GRID_MS = 20;
const SHORT_MS = 1_000;

type Send<T> = (signal: AbortSignal) => Promise<T>;
type OnLate<T> = (value: T | null) => void;

/** A pending command. */
class Command<T> implements Indexed {
  index = 0;
  isLate = false;
  readonly limitMs: number;
  readonly answer: Promise<T>;
  /** Only where the caller may abandon this command alone; otherwise the group's signal serves. */
  readonly controller: AbortController | null;
  reject!: (error: StoreError) => void;
  resolve!: (value: T) => void;

  constructor(limitMs: number, controller: AbortController | null) {
    this.limitMs = limitMs;
    this.controller = controller;
    this.answer = new Promise<T>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }
}

/** The commands whose time limit ends at the same instant. */
interface Group {
  readonly controller: AbortController;
  readonly pending: UnorderedSet<Command<unknown>>;
}

/**
 * Gives every command a time limit. A client leaves a command pending for ever on a connection that
 * swallows packets, so the core measures the time itself and does not rely on the store to settle.
 */
export class Commands {
  readonly #clock: Clock;
  readonly #groups = new Map<number, Group>();

  /** The limit of a command that names none. */
  readonly limitMs: number;

  constructor(clock: Clock, limitMs: number = DEFAULTS.commandMs) {
    this.#clock = clock;
    this.limitMs = limitMs;
  }

  /**
   * Settles as `send` does, or rejects with a `StoreError` of unknown outcome after `limitMs` (or a
   * little later). An answer after that goes to `onLate`, `null` for an error: a late grant must be
   * cleaned up, and a late confirmation of a renewal still counts. `controller`: of a caller that may
   * abandon this command alone. A request that was not sent when it aborts is never sent.
   */
  run<T>(
    send: Send<T>,
    limitMs: number = this.limitMs,
    onLate?: OnLate<T>,
    controller: AbortController | null = null,
  ): Promise<T> {
    const group = this.#groupFor(limitMs);
    const command = new Command<T>(limitMs, controller);
    const { pending } = group as { pending: UnorderedSet<Indexed> };
    pending.add(command);
    let sent: Promise<T>;
    try {
      sent = send((controller ?? group.controller).signal);
    } catch (error) {
      sent = Promise.reject(error);
    }
    sent.then(
      (value) => {
        pending.delete(command);
        if (command.isLate) onLate?.(value);
        else command.resolve(value);
      },
      (error: unknown) => {
        pending.delete(command);
        if (command.isLate) onLate?.(null);
        else command.reject(asHoldfastError(error));
      },
    );
    return command.answer;
  }

  /** Aborts the signals of all these commands. */
  abandonAll(reason: unknown): void {
    for (const { controller, pending } of [...this.#groups.values()]) {
      controller.abort(reason);
      for (const command of [...pending.all]) command.controller?.abort(reason);
    }
  }

  #groupFor(limitMs: number): Group {
    const grid = limitMs < SHORT_MS ? SHORT_GRID_MS : GRID_MS;
    const nowMs = this.#clock.monotonicMs();
    const endMs = Math.ceil((nowMs + limitMs) / grid) * grid;
    const found = this.#groups.get(endMs);
    if (found !== undefined) return found;
    const group: Group = { controller: new AbortController(), pending: new UnorderedSet() };
    // Many commands share the signal, so many listeners are no leak.
    setMaxListeners(0, group.controller.signal);
    this.#groups.set(endMs, group);
    this.#clock.startTimer(endMs - nowMs, () => {
      this.#groups.delete(endMs);
      this.#onLimit(group);
    });
    return group;
  }

  /**
   * Timers run before sockets are read. After a stall of this process the answer may lie unread,
   * so it gets one more turn of the event loop. A store that knows why there was no answer gets
   * another turn, after its signal has aborted, to reject with that reason.
   */
  #onLimit({ controller, pending }: Group): void {
    const nextTurn = (next: () => void): unknown => this.#clock.startTimer(0, next);
    nextTurn(() => {
      const [first] = pending.all;
      if (first === undefined) return;
      controller.abort(noAnswer(first));
      for (const command of [...pending.all]) command.controller?.abort(noAnswer(command));
      nextTurn(() => {
        for (const command of [...pending.all]) {
          command.isLate = true;
          command.reject(noAnswer(command));
        }
      });
    });
  }
}

function noAnswer({ limitMs }: { readonly limitMs: number }): StoreError {
  return unknownOutcome(`The store did not answer within ${Math.round(limitMs)} ms`);
}

/** Turns what a store throws synchronously into a rejection. */
export function sendSafely<T>(send: () => Promise<T>): Promise<T> {
  try {
    return send();
  } catch (error) {
    return Promise.reject(error);
  }
}

/** Whatever else a store throws, the effect of the command is unknown. */
function asHoldfastError(error: unknown): StoreError {
  if (isStoreError(error) || isDefinite(error)) return error as StoreError;
  return unknownOutcome(`The store failed: ${show(error)}`, error);
}
