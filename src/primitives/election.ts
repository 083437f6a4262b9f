import { checkFunction, checkName } from '../checks.ts';
import type { Core } from '../core.ts';
import { acquire } from '../hold/acquire.ts';
import { isStoreError } from '../hold/command.ts';
import type { Grant } from '../hold/grant.ts';
import { GrantHold, type Hold } from '../hold/hold.ts';
import { type AcquireOptions, DEFAULTS, resolve, type Settings } from '../options.ts';
import type { Mode } from '../store/store.ts';
import { type ClaimView, viewClaim } from '../view.ts';
import { Campaign, type Candidate, type ElectionHandlers } from './candidate.ts';
import { observe } from './observe.ts';

const EXCLUSIVE: Mode = { kind: 'exclusive' };

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
    this.#settings = { ...resolve(core.settings, options), waitMs: Number.POSITIVE_INFINITY };
  }

  start(handlers: ElectionHandlers = {}): Candidate {
    this.#core.assertOpen();
    return new Campaign(this.#core, (signal) => this.#campaign(signal), handlers, this.#settings.signal);
  }

  async lead(
    fn: (term: Hold) => Promise<void>,
    options: { signal?: AbortSignal | undefined } = {},
  ): Promise<void> {
    checkFunction('fn', fn);
    this.#core.assertOpen();
    const signal = options.signal ?? this.#settings.signal;
    for (;;) {
      const grant = await this.#campaign(signal);
      const ended = await this.#serve(grant, fn, signal);
      if (ended) return;
    }
  }

  async leader(): Promise<ClaimView | null> {
    const { commands, store } = this.#core;
    const claims = await commands.run((signal) => store.read(this.#name, signal), DEFAULTS.commandMs);
    const holder = claims.find((claim) => claim.granted);
    return holder === undefined ? null : viewClaim(holder);
  }

  observe(options: { signal?: AbortSignal | undefined } = {}): AsyncIterable<ClaimView | null> {
    return observe(this.#core, this.#name, () => this.leader(), options.signal);
  }

  async #campaign(signal: AbortSignal | undefined): Promise<Grant> {
    const { events, owner, clock } = this.#core;
    const startedMs = clock.monotonicMs();
    const settings = { ...this.#settings, signal };
    const grant = await acquire(this.#core, { name: this.#name, mode: EXCLUSIVE, settings });
    if (events.wanted('leader')) {
      events.emit('leader', {
        ...grant.ref,
        owner,
        fence: grant.fence,
        waitedMs: clock.monotonicMs() - startedMs,
      });
    }
    return grant;
  }

  /** One term. True when the function has ended it by itself. */
  async #serve(
    grant: Grant,
    fn: (term: Hold) => Promise<void>,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const interrupt = (): void => grant.interrupt('released');
    const stoppable = { stop: async () => grant.interrupt('closed') };
    this.#core.stoppables.add(stoppable);
    signal?.addEventListener('abort', interrupt, { once: true });
    let ended = true;
    try {
      await fn(new GrantHold(this.#core, grant));
      ended = grant.remainingMs() > 0 || !grant.isLost;
    } catch (error) {
      ended = false;
      if (grant.remainingMs() > 0 && signal?.aborted !== true) throw error;
    } finally {
      signal?.removeEventListener('abort', interrupt);
      this.#core.stoppables.delete(stoppable);
      await resign(grant);
    }
    signal?.throwIfAborted();
    return ended;
  }
}

/** The term is over either way; a silent store only makes the others wait for the lease. */
async function resign(grant: Grant): Promise<void> {
  try {
    await grant.release();
  } catch (error) {
    if (!isStoreError(error)) throw error;
  }
}
