import { checkName, checkType } from '../checks.ts';
import { FOREVER_MS } from '../clock.ts';
import type { Core } from '../core.ts';
import { onAbort } from '../hold/abort.ts';
import { acquire, asGrant } from '../hold/acquire.ts';
import type { Grant } from '../hold/grant.ts';
import { GrantHold, type Hold } from '../hold/hold.ts';
import { type AcquireOptions, resolve, type Settings } from '../options.ts';
import { type ClaimView, viewClaim } from '../view.ts';
import { Campaign, type Candidate, type ElectionHandlers } from './candidate.ts';
import { EXCLUSIVE } from './mutex.ts';
import { observe } from './observe.ts';

/** One leader at a time among those who stand. The fence of a term is greater than that of every earlier term. */
export interface Election {
  /** Stands for election until stopped, again after each term. */
  start(handlers?: ElectionHandlers): Candidate;
  /**
   * Runs the function once per term. Term lost: its signal aborts, the function is awaited (what it throws then is taken for the end of its work), and a new campaign begins. The
   * function returns or throws: it resigns and settles likewise. Rejects with `signal.reason` when aborted, after the function has ended.
   */
  lead(fn: (term: Hold) => Promise<void>, options?: { signal?: AbortSignal | undefined }): Promise<void>;
  /** The leader now, or `null`. */
  leader(): Promise<ClaimView | null>;
  /**
   * The current leader and every change that is seen. Converges on the current leader and never goes back to an earlier term; short terms may be skipped.
   * Throws `signal.reason` when aborted, ends when the Locks is closed.
   */
  observe(options?: { signal?: AbortSignal | undefined }): AsyncIterable<ClaimView | null>;
}

export class NamedElection implements Election {
  readonly #core: Core;
  readonly #name: string;
  readonly #settings: Settings;

  constructor(core: Core, name: string, options?: AcquireOptions) {
    this.#core = core;
    this.#name = checkName(name);
    this.#settings = { ...resolve(core.settings, options), waitMs: FOREVER_MS };
  }

  start(handlers: ElectionHandlers = {}): Candidate {
    checkType('handlers', handlers, 'object');
    for (const handler of ['onElected', 'onLost'] as const) {
      if (handlers[handler] !== undefined) checkType(handler, handlers[handler], 'function');
    }
    this.#core.assertOpen();
    this.#settings.signal?.throwIfAborted();
    return new Campaign(this.#core, (signal) => this.#campaign(signal), handlers, this.#settings.signal);
  }

  async lead(
    fn: (term: Hold) => Promise<void>,
    options?: { signal?: AbortSignal | undefined },
  ): Promise<void> {
    checkType('fn', fn, 'function');
    const { signal } = resolve(this.#settings, options);
    this.#core.assertOpen();
    this.#core.stayAlive.begin();
    try {
      while (!(await this.#serve(await this.#campaign(signal), fn, signal)));
    } finally {
      this.#core.stayAlive.end();
    }
  }

  async leader(): Promise<ClaimView | null> {
    const claims = await this.#core.read(this.#name);
    const holder = claims.find((claim) => claim.granted);
    return holder === undefined ? null : viewClaim(holder);
  }

  observe(options?: { signal?: AbortSignal | undefined }): AsyncIterable<ClaimView | null> {
    const { signal } = resolve(this.#core.settings, options);
    return observe(this.#core, this.#name, () => this.leader(), signal);
  }

  async #campaign(signal: AbortSignal | undefined): Promise<Grant> {
    const { clock } = this.#core;
    const startedMs = clock.monotonicMs();
    const settings = { ...this.#settings, signal };
    const grant = await acquire(this.#core, { name: this.#name, mode: EXCLUSIVE, settings }, asGrant);
    const waitedMs = clock.monotonicMs() - startedMs;
    this.#core.emit('leader', grant.ref, { fence: grant.fence, waitedMs });
    return grant;
  }

  /** One term. True when the function has ended it by itself. */
  async #serve(
    grant: Grant,
    fn: (term: Hold) => Promise<void>,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const stoppable = { stop: async () => grant.interrupt('closed') };
    this.#core.stoppables.add(stoppable);
    const stopListening = onAbort(signal, () => grant.interrupt('released'));
    try {
      // The abort may have come together with the grant.
      signal?.throwIfAborted();
      await fn(new GrantHold(this.#core, grant));
      return !grant.isLost;
    } catch (error) {
      signal?.throwIfAborted();
      if (!grant.isLost) throw error;
      return false;
    } finally {
      stopListening();
      this.#core.stoppables.delete(stoppable);
      await grant.release().catch(() => {});
      signal?.throwIfAborted();
    }
  }
}
