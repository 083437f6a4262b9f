import type { Core, Stoppable } from '../core.ts';
import { ClosedError, HoldLostError } from '../errors.ts';
import { warnOfListener } from '../events.ts';
import type { Grant } from '../hold/grant.ts';
import { GrantHold, type Hold } from '../hold/hold.ts';
import { backoff, pause } from '../hold/pause.ts';

/** What a candidate is told of its terms. */
export interface ElectionHandlers {
  /**
   * Elected. What it returns is awaited before the candidate stands again, so that two terms of one process never overlap; `term.signal` tells it to end. When it throws,
   * the candidate resigns and stands again later.
   */
  onElected?(term: Hold): void | Promise<void>;
  /** The term is over: lost, stopped, or given up because `onElected` threw. */
  onLost?(reason: Error): void;
}

/** Stands for election again and again until it is stopped, and keeps the process alive while it does. */
export interface Candidate extends AsyncDisposable {
  /** Turns false on the local deadline, without waiting for the store to say so. */
  readonly isLeader: boolean;
  /** Hands over at once and stands no more. Never rejects. */
  stop(): Promise<void>;
}

const RETRY = { min: 500, max: 10_000 };

export class Campaign implements Candidate, Stoppable {
  readonly #core: Core;
  readonly #campaign: (signal: AbortSignal) => Promise<Grant>;
  readonly #handlers: ElectionHandlers;
  readonly #stopped = new AbortController();
  readonly #ended: Promise<void>;
  #grant: Grant | null = null;

  constructor(
    core: Core,
    campaign: (signal: AbortSignal) => Promise<Grant>,
    handlers: ElectionHandlers,
    signal: AbortSignal | undefined,
  ) {
    this.#core = core;
    this.#campaign = campaign;
    this.#handlers = handlers;
    core.stoppables.add(this);
    core.stayAlive.begin();
    const onAbort = (): void => void this.stop();
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#ended = this.#stand().finally(() => {
      signal?.removeEventListener('abort', onAbort);
      core.stoppables.delete(this);
      core.stayAlive.end();
    });
  }

  get isLeader(): boolean {
    return this.#grant !== null && !this.#stopped.signal.aborted && this.#grant.remainingMs() > 0;
  }

  async stop(): Promise<void> {
    this.#stopped.abort(new ClosedError('The candidate was stopped'));
    const grant = this.#grant;
    if (grant !== null) {
      grant.interrupt(this.#core.isClosed ? 'closed' : 'released');
      await grant.release().catch(() => {});
    }
    // Not for `onElected`, which may take its time to end: others lead from here on, and this candidate stands no more.
    if (grant === null) await this.#ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #stand(): Promise<void> {
    let failures = 0;
    while (!this.#stopped.signal.aborted) {
      try {
        const grant = await this.#campaign(this.#stopped.signal);
        await this.#serve(grant);
        failures = 0;
      } catch (error) {
        if (this.#stopped.signal.aborted || error instanceof ClosedError) return;
        // A full line, a disagreement on the mode, a handler that threw: the `refused` event or `onLost` has told it. Stand again later.
        await pause(this.#core.clock, backoff(this.#core.clock, failures++, RETRY));
      }
    }
  }

  async #serve(grant: Grant): Promise<void> {
    const term = new GrantHold(this.#core, grant);
    this.#grant = grant;
    try {
      // Told within the abort itself, and so before the store can give the lock to anybody else.
      const over = onceAborted(term.signal, (reason) => this.#tellLost(reason));
      const work = this.#elected(term);
      const failure = await Promise.race([over, work.then((failed) => failed ?? over)]);
      if (failure instanceof HoldLostError) {
        await work;
        return;
      }
      this.#tellLost(failure);
      await grant.release().catch(() => {});
      throw failure;
    } finally {
      this.#grant = null;
    }
  }

  #tellLost(reason: Error): void {
    try {
      this.#handlers.onLost?.(reason);
    } catch (error) {
      warnOfListener('onLost', error);
    }
  }

  /** Resolves when the handler is through: to its error, or to `null`. */
  async #elected(term: Hold): Promise<Error | null> {
    try {
      await this.#handlers.onElected?.(term);
      return null;
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error), { cause: error });
    }
  }
}

function onceAborted(signal: AbortSignal, tell: (reason: Error) => void): Promise<Error> {
  return new Promise((resolve) => {
    const onAbort = (): void => {
      tell(signal.reason as Error);
      resolve(signal.reason as Error);
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  });
}
