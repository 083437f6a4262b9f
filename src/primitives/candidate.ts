import { show } from '../checks.ts';
import type { Core, Stoppable } from '../core.ts';
import { ClosedError, type LossReason } from '../errors.ts';
import { callListener, warnOf } from '../events.ts';
import { onAbort } from '../hold/abort.ts';
import { codeOf } from '../hold/command.ts';
import type { Grant } from '../hold/grant.ts';
import { GrantHold, type Hold } from '../hold/hold.ts';
import { backoff, pause } from '../hold/pause.ts';

/** What a candidate is told of its terms. */
export interface ElectionHandlers {
  /**
   * Elected. What it returns is awaited before the candidate stands again, so that two terms of one process never overlap; `term.signal` tells it to end. When it throws,
   * the candidate resigns and stands again later; `onLost` gets what it threw, and where there is none the process gets a warning (`HOLDFAST_LISTENER`).
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
    const stopListening = onAbort(signal, () => void this.stop());
    this.#ended = this.#stand().finally(() => {
      stopListening();
      core.stoppables.delete(this);
      core.stayAlive.end();
    });
  }

  get isLeader(): boolean {
    return this.#grant !== null && !this.#stopped.signal.aborted && this.#grant.remainingMs() > 0;
  }

  async stop(): Promise<void> {
    this.#stopped.abort(new ClosedError());
    const grant = this.#grant;
    // Not for `onElected`, which may take its time to end: others lead from here on, and this candidate stands no more.
    await (grant === null ? this.#ended : resign(grant, this.#core.isClosed ? 'closed' : 'released'));
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
        // A full line, a disagreement on the mode, a handler that threw: the `refused` event, `onLost` or a warning has told it. Stand again later.
        await pause(clock, backoff(clock, failures++, RETRY), { signal });
      }
    }
  }

  /** One term. Throws what `onElected` threw. */
  async #serve(grant: Grant): Promise<void> {
    if (this.#stopped.signal.aborted) {
      await resign(grant, 'released');
      return;
    }
    this.#grant = grant;
    try {
      const term = new GrantHold(this.#core, grant);
      let isTold = false;
      const told = (reason: Error): void => {
        if (isTold) return;
        // Before it is told: a handler that stops the candidate ends the term once more.
        isTold = true;
        callListener('onLost', () => this.#handlers.onLost?.(reason));
      };
      const over = whenOver(grant, term.signal, told);
      const work = this.#elected(term);
      const failure = await Promise.race([over, work.then((failed) => failed ?? over)]);
      if (failure === null) {
        await work;
        return;
      }
      if (this.#handlers.onLost === undefined) warnOf('onElected', failure);
      told(failure);
      await resign(grant, 'released');
      throw failure;
    } finally {
      this.#grant = null;
    }
  }

  /** Resolves when the handler is through: to its error, or to `null`. */
  async #elected(term: Hold): Promise<Error | null> {
    try {
      await this.#handlers.onElected?.(term);
      return null;
    } catch (error) {
      return error instanceof Error ? error : new Error(show(error), { cause: error });
    }
  }
}

/** Resolves when the term is over: lost, stopped, or given up by the user. Tells it at that instant, not a turn of the event loop later. */
function whenOver(grant: Grant, signal: AbortSignal, tell: (reason: Error) => void): Promise<null> {
  return new Promise((resolve) => {
    const onOver = (): void => {
      tell(grant.reason);
      resolve(null);
    };
    if (signal.aborted) onOver();
    onAbort(signal, onOver);
    grant.whenOver(onOver);
  });
}

/** Tells whoever works in this term to end, and gives it up. A silent store only makes the others wait for the lease. */
export async function resign(grant: Grant, how: LossReason): Promise<void> {
  grant.interrupt(how);
  await grant.release().catch(() => {});
}
