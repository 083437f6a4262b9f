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

type OnLate<T> = (value: T | null) => void;

/** The commands whose time limit ends at the same instant. */
interface Group {
  readonly controller: AbortController;
  readonly pending: UnorderedSet<PendingCommand>;
}

interface PendingCommand extends Indexed {
  readonly controller: AbortController | null;
  readonly limitMs: number;
  onLimit(): void;
}

/** A command whose time limit has begun. `settle` gives it the answer of the store. */
export class Command<T> implements PendingCommand {
  index = 0;
  readonly limitMs: number;
  /** Only where the caller may abandon this command alone; otherwise the group's signal serves. */
  readonly controller: AbortController | null;
  readonly #group: Group;
  readonly #onLate: OnLate<T> | undefined;
  #reject: ((error: StoreError) => void) | null = null;
  #isLate = false;

  constructor(
    group: Group,
    limitMs: number,
    onLate: OnLate<T> | undefined,
    controller: AbortController | null,
  ) {
    this.#group = group;
    this.limitMs = limitMs;
    this.#onLate = onLate;
    this.controller = controller;
    group.pending.add(this);
  }

  /** Aborts when the time limit is over, or when the caller abandons the command. */
  get signal(): AbortSignal {
    return (this.controller ?? this.#group.controller).signal;
  }

  /** Settles as `answer` does, or rejects at the time limit. */
  settle(answer: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#reject = reject;
      answer.then(
        (value) => {
          this.#group.pending.delete(this);
          if (this.#isLate) this.#onLate?.(value);
          else resolve(value);
        },
        (error: unknown) => {
          this.#group.pending.delete(this);
          if (this.#isLate) this.#onLate?.(null);
          else reject(asHoldfastError(error));
        },
      );
    });
  }

  onLimit(): void {
    this.#isLate = true;
    this.#reject?.(noAnswer(this));
  }
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
   * The time limit of a command begins. `settle` of the result then rejects with a `StoreError` of
   * unknown outcome after `limitMs` (or a little later). An answer after that goes to `onLate`,
   * `null` for an error: a late grant must be cleaned up, and a late confirmation of a renewal still
   * counts. `controller`: of a caller that may abandon this command alone. A request that was not
   * sent when it aborts is never sent.
   */
  begin<T>(
    limitMs: number = this.limitMs,
    onLate?: OnLate<T>,
    controller: AbortController | null = null,
  ): Command<T> {
    return new Command<T>(this.#groupFor(limitMs), limitMs, onLate, controller);
  }

  /** Begins a command, sends it and settles as it does. */
  run<T>(
    send: (signal: AbortSignal) => Promise<T>,
    limitMs: number = this.limitMs,
    onLate?: OnLate<T>,
  ): Promise<T> {
    const command = this.begin(limitMs, onLate);
    return command.settle(sendSafely(() => send(command.signal)));
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
        for (const command of [...pending.all]) command.onLimit();
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
