import { checkCount, checkKeys, DAY_MS, show } from '../checks.ts';
import type { Core, Served, Stoppable } from '../core.ts';
import { ClosedError } from '../errors.ts';
import { callListener, warnOf } from '../events.ts';
import type { HeldClaim } from '../hold/held-claim.ts';
import { ClaimHold, type Hold } from '../hold/hold.ts';
import { DEFAULTS } from '../options.ts';
import { onAbort } from '../util/abort.ts';
import { backoff, pause } from '../util/backoff.ts';
import { codeOf } from '../util/error-code.ts';

/** What a candidate calls in each of its terms. */
export interface ElectionHandlers {
  /**
   * Elected. The returned promise is awaited before the candidate stands again and before `stop`
   * releases the lock, so that two terms never overlap; `term.signal` aborts at the end. When it
   * throws, the candidate resigns and stands again later; `onLost` gets the error, and where there
   * is no `onLost` the process gets a warning (`HOLDFAST_LISTENER`).
   */
  onElected?(term: Hold): void | Promise<void>;
  /** The term is over: lost, stopped, or resigned because `onElected` threw. */
  onLost?(reason: Error): void;
}

/** Stands for election again and again until it is stopped. It keeps the process alive until then. */
export interface Candidate extends AsyncDisposable {
  /** Turns false at the local deadline, without waiting for the store to say so. */
  readonly isLeader: boolean;
  /**
   * Aborts the term's signal, waits for `onElected` to settle, releases the lock and ends. The hold
   * is renewed meanwhile. When `onElected` has not settled after `drainMs` (default 10,000), the
   * candidate releases the lock anyway, and a `HOLDFAST_DRAIN` process warning says that two may
   * lead. Of several calls, and `close` of the Locks is one of them, the first to reach its `drainMs`
   * counts. Never rejects.
   */
  stop(options?: { drainMs?: number | undefined }): Promise<void>;
}

const RETRY = { min: 500, max: 10_000 };

export class Campaign implements Candidate, Stoppable {
  readonly serves: Served;
  readonly #core: Core;
  readonly #campaign: (signal: AbortSignal) => Promise<HeldClaim>;
  readonly #handlers: ElectionHandlers;
  readonly #stopped = new AbortController();
  /** Aborts when the work of a stopped candidate has had its `drainMs`, which is the reason. */
  readonly #overdue = new AbortController();
  readonly #ended: Promise<void>;
  #held: HeldClaim | null = null;

  constructor(
    core: Core,
    name: string,
    campaign: (signal: AbortSignal) => Promise<HeldClaim>,
    handlers: ElectionHandlers,
    signal: AbortSignal | undefined,
  ) {
    this.serves = { kind: 'election', name };
    this.#core = core;
    this.#campaign = campaign;
    this.#handlers = handlers;
    core.stoppables.add(this);
    const stopListening = onAbort(signal, () => void this.stop());
    this.#ended = core.during(this.#stand()).finally(() => {
      stopListening();
      core.stoppables.delete(this);
    });
  }

  get isLeader(): boolean {
    return this.#held?.checkDeadline() === true && !this.#stopped.signal.aborted;
  }

  async stop(options: { drainMs?: number | undefined } = {}): Promise<void> {
    checkKeys(options, ['drainMs']);
    const drainMs = checkCount('drainMs', options.drainMs ?? DEFAULTS.drainMs, 0, DAY_MS);
    const timer = this.#core.clock.startTimer(drainMs, () => this.#overdue.abort(drainMs));
    if (!this.#stopped.signal.aborted) {
      this.#stopped.abort(new ClosedError());
      this.#held?.interrupt(this.#core.isClosed ? 'closed' : 'released');
    }
    await this.#ended;
    timer.cancel();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #stand(): Promise<void> {
    const { clock } = this.#core;
    const { signal } = this.#stopped;
    for (let failures = 0; !signal.aborted; ) {
      try {
        await this.#serve(await this.#campaign(signal));
        failures = 0;
      } catch (error) {
        if (signal.aborted || codeOf(error) === 'CLOSED') return;
        // A full queue, a mode mismatch, a handler that threw: the `refused` event, `onLost` or a
        // warning has reported it.
        await pause(clock, backoff(clock, failures++, RETRY), { signal });
      }
    }
  }

  /** One term. Throws the error of `onElected`. */
  async #serve(held: HeldClaim): Promise<void> {
    this.#held = held;
    try {
      if (this.#stopped.signal.aborted) return;
      const term = new ClaimHold(this.#core, held);
      const reportLoss = this.#lossReporter();
      const over = whenOver(held, term.signal, reportLoss);
      const work = this.#elected(term);
      const failure = await Promise.race([over, work.then((failed) => failed ?? over)]);
      if (failure !== null) {
        if (this.#handlers.onLost === undefined) warnOf('onElected', failure);
        reportLoss(failure);
        throw failure;
      }
      await this.#drain(work);
    } finally {
      this.#held = null;
      held.interrupt('released');
      // A silent store only makes the other candidates wait until the lease expires.
      await held.release().catch(() => {});
    }
  }

  /** Waits for the work of the term before the lock is released, for as long as `stop` allows. */
  async #drain(work: Promise<unknown>): Promise<void> {
    const { signal } = this.#overdue;
    let isDone = false;
    const done = work.then(() => {
      isDone = true;
    });
    // Work that has settled already is not overdue.
    await Promise.resolve();
    if (!signal.aborted)
      await new Promise<void>((resolve) => {
        // The signal outlives the term.
        const stopListening = onAbort(signal, resolve);
        void done.then(stopListening).then(resolve);
      });
    if (!isDone) warnOfDrain(this.serves.name, signal.reason as number);
  }

  /** Calls `onLost` for the first reason only: a handler that stops the candidate ends its term again. */
  #lossReporter(): (reason: Error) => void {
    let isReported = false;
    return (reason) => {
      if (isReported) return;
      isReported = true;
      callListener('onLost', () => this.#handlers.onLost?.(reason));
    };
  }

  /** Resolves when the handler has settled: to its error, or to `null`. */
  async #elected(term: Hold): Promise<Error | null> {
    try {
      await this.#handlers.onElected?.(term);
      return null;
    } catch (error) {
      return error instanceof Error ? error : new Error(show(error), { cause: error });
    }
  }
}

/**
 * Resolves when the term is over: lost, stopped, or released by the user. Reports that in the same
 * step, not a turn of the event loop later.
 */
function whenOver(held: HeldClaim, signal: AbortSignal, report: (reason: Error) => void): Promise<null> {
  return new Promise((resolve) => {
    const onOver = (): void => {
      report(held.reason);
      resolve(null);
    };
    if (signal.aborted) onOver();
    onAbort(signal, onOver);
    held.whenOver(onOver);
  });
}

/** The lock is released although the work of the term is not done. */
export function warnOfDrain(name: string, drainMs: number): void {
  process.emitWarning(
    `The leader of ${JSON.stringify(name)} was still at work ${drainMs} ms after it was stopped, ` +
      'but its lock was released: two may lead now',
    { code: 'HOLDFAST_DRAIN' },
  );
}
