import { checkCount, checkKeys, DAY_MS, show } from '../checks.ts';
import type { Core, Served, Stoppable } from '../core.ts';
import { ClosedError } from '../errors.ts';
import { callListener, warnOf } from '../events.ts';
import type { HeldClaim } from '../hold/held-claim.ts';
import { ClaimHold, type Hold } from '../hold/hold.ts';
import { DEFAULTS } from '../options.ts';
import { onAbort } from '../util/abort.ts';
import { backoff, pause, settlesWithin } from '../util/backoff.ts';
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
   * lead. Never rejects.
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
  readonly #ended: Promise<void>;
  #drainMs: number = DEFAULTS.drainMs;
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
    if (!this.#stopped.signal.aborted) {
      this.#drainMs = drainMs;
      this.#stopped.abort(new ClosedError());
      this.#held?.interrupt(this.#core.isClosed ? 'closed' : 'released');
    }
    await this.#ended;
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
      await settledOrAborted(work, this.#stopped.signal);
      if (this.#stopped.signal.aborted) await drain(this.#core, work, this.#drainMs, held.ref.name);
    } finally {
      this.#held = null;
      held.interrupt('released');
      // A silent store only makes the other candidates wait until the lease expires.
      await held.release().catch(() => {});
    }
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

/** Leaves no callback behind: the signal outlives the term. */
async function settledOrAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  let stopListening = (): void => {};
  const aborted = new Promise<void>((resolve) => {
    stopListening = onAbort(signal, resolve);
  });
  await Promise.race([work, aborted]);
  stopListening();
}

/** Waits for the work of a term before the lock is released, and warns when the work is not done by then. */
export async function drain(
  core: Core,
  work: Promise<unknown>,
  drainMs: number,
  name: string,
): Promise<void> {
  if (await settlesWithin(core.clock, work, drainMs)) return;
  process.emitWarning(
    `The leader of ${JSON.stringify(name)} was still at work ${drainMs} ms after it was stopped, ` +
      'and the lock was released all the same: two may lead now',
    { code: 'HOLDFAST_DRAIN' },
  );
}
