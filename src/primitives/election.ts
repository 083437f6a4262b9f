import { checkKeys, checkName, checkType } from '../checks.ts';
import { FOREVER_MS } from '../clock.ts';
import type { Core, Served, Stoppable } from '../core.ts';
import { acquire } from '../hold/acquire.ts';
import type { HeldClaim } from '../hold/held-claim.ts';
import { ClaimHold, type Hold } from '../hold/hold.ts';
import { type AcquireOptions, resolve, type Settings } from '../options.ts';
import { onAbort } from '../util/abort.ts';
import { settlesWithin } from '../util/backoff.ts';
import { type ClaimView, viewClaim } from '../view.ts';
import { Campaign, type Candidate, type ElectionHandlers, warnOfDrain } from './candidate.ts';
import { EXCLUSIVE } from './mutex.ts';
import { observe } from './observe.ts';

/**
 * One leader at a time among the candidates. The fence of a term is greater than that of every
 * earlier term.
 */
export interface Election {
  /** Stands for election until stopped, again after each term. */
  start(handlers?: ElectionHandlers): Candidate;
  /**
   * Runs the function once per term. When the term is lost, its signal aborts, the function is
   * awaited (an error that it throws then counts as its end), and a new campaign begins. When the
   * function returns or throws, the leader resigns and this promise settles in the same way.
   * Rejects with `signal.reason` when aborted, after the function has ended.
   */
  lead(fn: (term: Hold) => Promise<void>, options?: { signal?: AbortSignal | undefined }): Promise<void>;
  /** The leader now, or `null`. */
  leader(): Promise<ClaimView | null>;
  /**
   * The current leader and every change that is seen. Converges on the current leader and never
   * goes back to an earlier term; short terms may be skipped. Throws `signal.reason` when aborted,
   * ends when the Locks is closed.
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
    checkKeys(handlers, ['onElected', 'onLost'], 'handlers');
    for (const handler of ['onElected', 'onLost'] as const) {
      if (handlers[handler] !== undefined) checkType(handler, handlers[handler], 'function');
    }
    this.#core.assertOpen();
    this.#settings.signal?.throwIfAborted();
    const campaign = (signal: AbortSignal): Promise<HeldClaim> => this.#campaign(signal);
    return new Campaign(this.#core, this.#name, campaign, handlers, this.#settings.signal);
  }

  async lead(
    fn: (term: Hold) => Promise<void>,
    options?: { signal?: AbortSignal | undefined },
  ): Promise<void> {
    checkType('fn', fn, 'function');
    const { signal } = resolve(this.#settings, options && checkKeys(options, ['signal']));
    this.#core.assertOpen();
    await this.#core.during(this.#leadTerms(fn, signal));
  }

  async #leadTerms(fn: (term: Hold) => Promise<void>, signal: AbortSignal | undefined): Promise<void> {
    // The wait for a term ends by itself when the Locks closes. This says that the process stands.
    const standing: Stoppable = { serves: this.#serves, stop: async () => {} };
    this.#core.stoppables.add(standing);
    try {
      while (!(await this.#serve(await this.#campaign(signal), fn, signal)));
    } finally {
      this.#core.stoppables.delete(standing);
    }
  }

  async leader(): Promise<ClaimView | null> {
    const claims = await this.#core.read(this.#name);
    const holder = claims.find((claim) => claim.granted);
    return holder === undefined ? null : viewClaim(holder);
  }

  observe(options?: { signal?: AbortSignal | undefined }): AsyncIterable<ClaimView | null> {
    const { signal } = resolve(this.#core.settings, options && checkKeys(options, ['signal']));
    return observe(this.#core, this.#name, () => this.leader(), signal);
  }

  get #serves(): Served {
    return { kind: 'election', name: this.#name };
  }

  async #campaign(signal: AbortSignal | undefined): Promise<HeldClaim> {
    const { clock } = this.#core;
    const startedMs = clock.monotonicMs();
    const settings = { ...this.#settings, signal };
    const id = this.#core.ids.nextOfElection();
    const held = await acquire(this.#core, { name: this.#name, mode: EXCLUSIVE, settings, id });
    const waitedMs = clock.monotonicMs() - startedMs;
    this.#core.emit('leader', held.ref, { fence: held.fence, waitedMs });
    return held;
  }

  /** One term. True when the function has ended it. */
  async #serve(
    held: HeldClaim,
    fn: (term: Hold) => Promise<void>,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    let work: Promise<void> = Promise.resolve();
    const stop = async ({ drainMs }: { readonly drainMs: number }): Promise<void> => {
      held.interrupt('closed');
      if (!(await settlesWithin(this.#core.clock, work, drainMs))) warnOfDrain(this.#name, drainMs);
    };
    const stoppable: Stoppable = { serves: this.#serves, stop };
    this.#core.stoppables.add(stoppable);
    const stopListening = onAbort(signal, () => held.interrupt('released'));
    try {
      // The abort, or `close`, may have come together with the grant.
      signal?.throwIfAborted();
      this.#core.assertOpen();
      work = (async () => fn(new ClaimHold(this.#core, held)))();
      await work;
      return !held.isLost;
    } catch (error) {
      signal?.throwIfAborted();
      if (!held.isLost) throw error;
      return false;
    } finally {
      stopListening();
      this.#core.stoppables.delete(stoppable);
      await held.release().catch(() => {});
      signal?.throwIfAborted();
    }
  }
}
