import { checkCount, checkName, checkStoredName, checkType, DAY_MS, wrong } from './checks.ts';
import { Core } from './core.ts';
import { InvalidArgumentError } from './errors.ts';
import { isEvent, type LockEvents } from './events.ts';
import type { Hold } from './hold/hold.ts';
import { pause } from './hold/pause.ts';
import { type AcquireOptions, DEFAULTS, type LocksOptions } from './options.ts';
import { AllLock, type HoldAll } from './primitives/all.ts';
import { type Election, NamedElection } from './primitives/election.ts';
import type { Lockable } from './primitives/lockable.ts';
import { mutex } from './primitives/mutex.ts';
import { type OnceOptions, type OnceOutcome, once } from './primitives/once.ts';
import { type RateLimit, type RateLimitOptions, rateLimit } from './primitives/rate-limit.ts';
import { type ReadWriteLock, readWriteLock } from './primitives/read-write-lock.ts';
import { type Semaphore, type SemaphoreOptions, semaphore } from './primitives/semaphore.ts';
import type { Store } from './store/store.ts';
import { type LockView, viewLock } from './view.ts';

/** All locks of one store, for one owner. */
export interface Locks extends AsyncDisposable {
  /** `mutex(name).run(fn, options)`. */
  withLock<T>(name: string, fn: (hold: Hold) => T | Promise<T>, options?: AcquireOptions): Promise<T>;
  /** One holder at a time. */
  mutex(name: string, options?: AcquireOptions): Lockable;
  /** Many readers or one writer; a waiting writer is not overtaken. `write` is the mutex of that name. */
  readWriteLock(name: string, options?: AcquireOptions): ReadWriteLock;
  /** At most `permits` in use at a time. Throws `UnsupportedError` on a store that cannot count. */
  semaphore(name: string, options: SemaphoreOptions): Semaphore;
  /** All of these mutexes or none, never a deadlock with another `all`. */
  all(names: readonly string[], options?: AcquireOptions): Lockable<HoldAll>;
  /** One leader at a time, on the mutex of that name. */
  election(name: string, options?: AcquireOptions): Election;
  /**
   * Runs the function on one node only, and not again for `rememberMs` after it has finished. It has names of its own. When the function throws, nothing is remembered.
   * When the store did not confirm that it is done, that is tried on for as long as the claim stands, and the `releaseFailed` event tells of it: it may be forgotten then.
   * Rejects with `UnsupportedError` on a store that does not remember.
   */
  once<T>(name: string, fn: (hold: Hold) => T | Promise<T>, options?: OnceOptions): Promise<OnceOutcome<T>>;
  /** At most `permits` taken in any window of `perMs`. It has names of its own. */
  rateLimit(name: string, options: RateLimitOptions): RateLimit;
  /** Who holds a lock and who waits for it, in order. */
  inspect(name: string): Promise<LockView>;
  /** Every lock with a claim whose name begins with the prefix. */
  list(prefix?: string): AsyncIterable<LockView>;
  /** Takes a hold, or a place in line, away from exactly that claim. False when it was gone. */
  evict(name: string, claim: { id: string }): Promise<boolean>;
  /** Calls the listener for each such event of this Locks. The result removes it. */
  on<E extends keyof LockEvents>(event: E, listener: (e: LockEvents[E]) => void): () => void;
  /** Releases every hold of this Locks. Resolves to how many were given up. */
  releaseAll(): Promise<number>;
  /**
   * No new holds (`ClosedError`) and no more candidates; waits at most `drainMs` (default 10,000) for the running holds, tells those that are left through their signals and
   * releases them, and disconnects the store once no other Locks of this process uses it. Never rejects for a store that is out of reach; that one costs about 10 s more
   * at most, and its leases run out by themselves.
   */
  close(options?: { drainMs?: number | undefined }): Promise<void>;
}

/** Makes locks over a store. Throws `InvalidArgumentError` for a bad option. */
export function createLocks(store: Store, options: LocksOptions = {}): Locks {
  // Its type only: a URL may hold a password.
  if (typeof store?.claim !== 'function')
    throw new InvalidArgumentError('store', `must be a store, not a URL; got ${typeof store}`);
  return new StoreLocks(new Core(store, options));
}

class StoreLocks implements Locks {
  readonly #core: Core;
  #closing: Promise<void> | null = null;

  constructor(core: Core) {
    this.#core = core;
  }

  async withLock<T>(name: string, fn: (hold: Hold) => T | Promise<T>, options?: AcquireOptions): Promise<T> {
    return await mutex(this.#core, name, options).run(fn);
  }

  mutex(name: string, options?: AcquireOptions): Lockable {
    return mutex(this.#core, name, options);
  }

  readWriteLock(name: string, options?: AcquireOptions): ReadWriteLock {
    return readWriteLock(this.#core, name, options);
  }

  semaphore(name: string, options: SemaphoreOptions): Semaphore {
    return semaphore(this.#core, name, options);
  }

  all(names: readonly string[], options?: AcquireOptions): Lockable<HoldAll> {
    return new AllLock(this.#core, names, options);
  }

  election(name: string, options?: AcquireOptions): Election {
    return new NamedElection(this.#core, name, options);
  }

  once<T>(name: string, fn: (hold: Hold) => T | Promise<T>, options?: OnceOptions): Promise<OnceOutcome<T>> {
    return once(this.#core, name, fn, options);
  }

  rateLimit(name: string, options: RateLimitOptions): RateLimit {
    return rateLimit(this.#core, name, options);
  }

  async inspect(name: string): Promise<LockView> {
    return await this.#view(checkStoredName(name));
  }

  async *list(prefix = ''): AsyncIterable<LockView> {
    if (prefix !== '') checkName(prefix, 'prefix');
    const { commands, store } = this.#core;
    const names = store.list(prefix)[Symbol.asyncIterator]();
    try {
      // Each step has its time limit: a look must not hang on a store that is silent.
      for (;;) {
        const { done, value: name } = await commands.run(() => names.next());
        if (done === true) return;
        const view = await this.#view(name);
        if (view.kind !== null) yield view;
      }
    } finally {
      names.return?.()?.catch(() => {});
    }
  }

  async evict(name: string, claim: { id: string }): Promise<boolean> {
    checkStoredName(name);
    if (typeof claim?.id !== 'string' || claim.id === '') throw wrong('claim', 'one with an id', claim);
    const { commands, store, clock } = this.#core;
    const ref = { name, id: claim.id };
    const startedMs = clock.monotonicMs();
    const evicted = await commands.run((signal) => store.evict(ref, signal));
    if (evicted) this.#core.emit('evicted', ref, { tookMs: clock.monotonicMs() - startedMs });
    return evicted;
  }

  on<E extends keyof LockEvents>(event: E, listener: (e: LockEvents[E]) => void): () => void {
    if (!isEvent(event)) throw wrong('event', 'an event of Locks', event);
    checkType('listener', listener, 'function');
    return this.#core.events.on(event, listener);
  }

  async releaseAll(): Promise<number> {
    const results = await Promise.allSettled([...this.#core.grants.all].map((grant) => grant.release()));
    return results.filter((result) => result.status === 'fulfilled' && result.value).length;
  }

  async close(options: { drainMs?: number | undefined } = {}): Promise<void> {
    checkType('options', options, 'object');
    const drainMs = checkCount('drainMs', options.drainMs ?? DEFAULTS.drainMs, 0, DAY_MS);
    this.#closing ??= this.#close(drainMs);
    await this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(drainMs: number): Promise<void> {
    const core = this.#core;
    core.refuseNew();
    const stopped = Promise.allSettled([...core.stoppables].map((each) => each.stop()));
    await this.#until(() => core.grants.all.length === 0, drainMs);
    for (const grant of [...core.grants.all]) grant.interrupt('closed');
    void this.releaseAll();
    // Those releases, and what is left in the background gets one command's time, no more: the leases run out by themselves.
    await this.#until(() => !core.isBusy, DEFAULTS.commandMs);
    await Promise.race([stopped, pause(core.clock, DEFAULTS.explainMs)]);
    core.keepalive.close();
    await core.leaveStore();
  }

  async #until(isSo: () => boolean, ms: number): Promise<void> {
    const { clock } = this.#core;
    for (const endMs = clock.monotonicMs() + ms; !isSo() && clock.monotonicMs() < endMs; ) {
      await this.#core.nextEnd(endMs - clock.monotonicMs());
    }
  }

  async #view(name: string): Promise<LockView> {
    return viewLock(name, await this.#core.read(name));
  }
}
