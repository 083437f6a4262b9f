import { checkCount, checkKeys, checkName, checkType, DAY_MS, wrong } from './checks.ts';
import { Core, type MakeRenewer } from './core.ts';
import { InvalidArgumentError } from './errors.ts';
import { isEvent, type LockEvents } from './events.ts';
import type { Hold } from './hold/hold.ts';
import { type AcquireOptions, DEFAULTS, type LocksOptions } from './options.ts';
import { AllLock, type HoldAll } from './primitives/all.ts';
import { type Election, NamedElection } from './primitives/election.ts';
import type { Lockable } from './primitives/lockable.ts';
import { mutex } from './primitives/mutex.ts';
import { forget, type OnceOptions, type OnceOutcome, once } from './primitives/once.ts';
import { type RateLimit, type RateLimitOptions, rateLimit } from './primitives/rate-limit.ts';
import { type ReadWriteLock, readWriteLock } from './primitives/read-write-lock.ts';
import { type Semaphore, type SemaphoreOptions, semaphore } from './primitives/semaphore.ts';
import type { Finding } from './store/finding.ts';
import type { Store } from './store/store.ts';
import { slotIn, slotName, slotPrefix, storedName, USES, type Use, usedName } from './use.ts';
import { pause } from './util/backoff.ts';
import { type LockView, viewLock } from './view.ts';

/** All locks of one store, for one owner. */
export interface Locks extends AsyncDisposable {
  /** Shown as the holder of a lock. */
  readonly owner: string;
  /** `mutex(name).run(fn, options)`. */
  withLock<T>(name: string, fn: (hold: Hold) => T | Promise<T>, options?: AcquireOptions): Promise<T>;
  /** One holder at a time. */
  mutex(name: string, options?: AcquireOptions): Lockable;
  /**
   * Many readers or one writer; a waiting writer is not overtaken. `write` is the mutex of that
   * name.
   */
  readWriteLock(name: string, options?: AcquireOptions): ReadWriteLock;
  /** At most `permits` in use at a time. Throws `UnsupportedError` on a store that cannot count. */
  semaphore(name: string, options: SemaphoreOptions): Semaphore;
  /** All of these mutexes or none, never a deadlock with another `all`. */
  all(names: readonly string[], options?: AcquireOptions): Lockable<HoldAll>;
  /** One leader at a time, on the mutex of that name. */
  election(name: string, options?: AcquireOptions): Election;
  /**
   * Runs the function in one process only, and not again for `rememberMs` after it has finished. It
   * has names of its own. When the function throws, nothing is remembered. When the store did not
   * confirm that the run is done, that is retried for as long as the claim stands, and the
   * `releaseFailed` event reports it: the run may be forgotten then. Rejects with
   * `UnsupportedError` on a store that does not remember.
   */
  once<T>(name: string, fn: (hold: Hold) => T | Promise<T>, options?: OnceOptions): Promise<OnceOutcome<T>>;
  /** At most `permits` taken in any window of `perMs`. It has names of its own. */
  rateLimit(name: string, options: RateLimitOptions): RateLimit;
  /** Lets a finished `once` run again. False when no finished run of that name is remembered. */
  forget(name: string): Promise<boolean>;
  /** The holders of a lock and its waiters, in order. `use`: `'lock'` unless set. */
  inspect(name: string, options?: { use?: Use | undefined }): Promise<LockView>;
  /** Every lock, `once`, rate limit and schedule with a claim whose name begins with the prefix. */
  list(prefix?: string): AsyncIterable<LockView>;
  /** Takes a hold, or a queue position, away from exactly that claim. False when it was gone. */
  evict(name: string, claim: { id: string }, options?: { use?: Use | undefined }): Promise<boolean>;
  /**
   * What this set-up can and cannot promise: the checks of the store and those that hold for every
   * store. A check that fails is a finding of level `unknown`. Rejects with a `StoreError` when the
   * store is out of reach. Takes up to about twice `commandMs`.
   */
  diagnose(): Promise<Finding[]>;
  /** Calls the listener for each such event of this Locks. The result removes it. */
  on<E extends keyof LockEvents>(event: E, listener: (e: LockEvents[E]) => void): () => void;
  /** Releases every hold of this Locks. Resolves to their number. */
  releaseAll(): Promise<number>;
  /**
   * No new holds (`ClosedError`) and no more candidates; waits at most `drainMs` (default 10,000)
   * for the running holds, aborts the signals of those that are left and releases them, and
   * disconnects the store once no other Locks of this process uses it. Never rejects for a store
   * that is out of reach; such a store costs about 10 s more at most, and its leases expire by
   * themselves.
   */
  close(options?: { drainMs?: number | undefined }): Promise<void>;
}

/** Makes locks over a store. Throws `InvalidArgumentError` for a bad option. */
export function createLocks(store: Store, options: LocksOptions = {}): Locks {
  // Its type only: a URL may hold a password.
  if (typeof store?.claim !== 'function')
    throw new InvalidArgumentError('store', `must be a store${storeHint(store)}; got ${typeof store}`);
  // A store that was made in this thread cannot be used from another.
  const renewal = options?.renewal ?? 'inline';
  if (renewal !== 'inline') throw wrong('renewal', 'inline', renewal);
  return new StoreLocks(new Core(store, options));
}

/**
 * What the Locks is made of, for entries of this package that build on it. Throws
 * `InvalidArgumentError` for anything but a Locks.
 */
export function coreOf(locks: Locks): Core {
  return StoreLocks.coreOf(locks);
}

/**
 * The same, for a store that was opened for these locks alone. Connects unless `connect` is false.
 * `startedMs`: when the caller began to open the store, by the clock of the options.
 */
export async function connectLocks(
  store: Store,
  options: LocksOptions,
  startedMs: number,
  makeRenewer?: MakeRenewer,
): Promise<Locks> {
  const core = new Core(store, options, makeRenewer);
  const locks = new StoreLocks(core);
  if (options.connect === false) return locks;
  try {
    await core.connect(startedMs);
  } catch (error) {
    await locks.close({ drainMs: 0 });
    throw error;
  }
  return locks;
}

/** The call that makes a store of the value that the user has passed. */
function storeHint(got: unknown): string {
  if (typeof got === 'string') return ', not a URL: use openLocks(url)';
  const has = (...methods: string[]): boolean =>
    methods.every((method) => typeof (got as Record<string, unknown> | null)?.[method] === 'function');
  if (has('sendCommand')) return ': pass redisStore(client) of holdfast/redis';
  if (has('query', 'getConnection')) return ': pass mysqlStore(pool) of holdfast/mysql';
  if (has('query', 'connect') || has('unsafe', 'begin'))
    return ': pass postgresLeaseStore(pool) of holdfast/postgres';
  if (has('lease', 'watch', 'put')) return ': pass etcdStore(client) of holdfast/etcd';
  if (has('getChildren', 'getSessionId')) return ': pass zookeeperStore(client) of holdfast/zookeeper';
  if (has('prepare', 'exec')) return ': pass sqliteStore(database) of holdfast/sqlite';
  return '';
}

function storedNameOf(name: string, options: { use?: Use | undefined } = {}): string {
  const { use = 'lock' } = checkKeys(options, ['use']);
  if (!USES.includes(use)) throw wrong('use', `one of ${USES.join(', ')}`, use);
  return storedName(use, checkName(name));
}

class StoreLocks implements Locks {
  readonly #core: Core;
  #closing: Promise<void> | null = null;

  constructor(core: Core) {
    this.#core = core;
  }

  static coreOf(locks: Locks): Core {
    const isLocks = typeof locks === 'object' && locks !== null && #core in locks;
    if (!isLocks) throw wrong('locks', 'the result of createLocks or openLocks', locks);
    return locks.#core;
  }

  get owner(): string {
    return this.#core.owner;
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

  async forget(name: string): Promise<boolean> {
    return await forget(this.#core, name);
  }

  async inspect(name: string, options?: { use?: Use | undefined }): Promise<LockView> {
    const stored = storedNameOf(name, options);
    const view = await this.#view(stored);
    if (options?.use !== 'schedule' || view.kind !== null) return view;
    // Between its runs, a schedule is shown by its slots.
    for await (const slot of this.#listStored(slotPrefix(name))) return slot;
    return view;
  }

  async *list(prefix = ''): AsyncIterable<LockView> {
    if (prefix === '') yield* this.#listStored('');
    else {
      checkName(prefix, 'prefix');
      for (const use of USES) yield* this.#listStored(storedName(use, prefix));
    }
  }

  async *#listStored(prefix: string): AsyncIterable<LockView> {
    const slots = new Map<string, number>();
    const running = new Set<string>();
    for await (const name of this.#core.listNames(prefix)) {
      const slotMs = slotIn(name);
      if (slotMs !== null) {
        const schedule = usedName(name).name;
        slots.set(schedule, Math.max(slotMs, slots.get(schedule) ?? slotMs));
        continue;
      }
      const view = await this.#view(name);
      if (view.kind === null) continue;
      if (view.use === 'schedule') running.add(view.name);
      yield view;
    }
    // However many slots are remembered, a schedule is shown once: its run, or its latest slot.
    for (const [schedule, slotMs] of slots) {
      if (!running.has(schedule)) yield await this.#view(slotName(schedule, slotMs));
    }
  }

  async evict(name: string, claim: { id: string }, options?: { use?: Use | undefined }): Promise<boolean> {
    const stored = storedNameOf(name, options);
    if (typeof claim?.id !== 'string' || claim.id === '') throw wrong('claim', 'one with an id', claim);
    const { commands, store, clock } = this.#core;
    const ref = { name: stored, id: claim.id };
    const startedMs = clock.monotonicMs();
    const evicted = await this.#core.during(commands.run((signal) => store.evict(ref, signal)));
    if (evicted) this.#core.emit('evicted', ref, { tookMs: clock.monotonicMs() - startedMs });
    return evicted;
  }

  async diagnose(): Promise<Finding[]> {
    this.#core.assertOpen();
    const { diagnose } = await import('./diagnose.ts');
    return await this.#core.during(diagnose(this.#core));
  }

  on<E extends keyof LockEvents>(event: E, listener: (e: LockEvents[E]) => void): () => void {
    if (!isEvent(event)) throw wrong('event', 'an event of Locks', event);
    checkType('listener', listener, 'function');
    return this.#core.events.on(event, listener);
  }

  async releaseAll(): Promise<number> {
    const results = await Promise.allSettled(this.#core.renewals.holds.map((held) => held.release()));
    return results.filter((result) => result.status === 'fulfilled' && result.value).length;
  }

  async close(options: { drainMs?: number | undefined } = {}): Promise<void> {
    checkKeys(options, ['drainMs']);
    const drainMs = checkCount('drainMs', options.drainMs ?? DEFAULTS.drainMs, 0, DAY_MS);
    this.#closing ??= this.#core.during(this.#close(drainMs));
    await this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(drainMs: number): Promise<void> {
    const core = this.#core;
    core.refuseNew();
    const stopped = Promise.allSettled([...core.stoppables].map((each) => each.stop({ drainMs })));
    await this.#until(() => core.renewals.holds.length === 0, drainMs);
    for (const held of core.renewals.holds) held.interrupt('closed');
    void this.releaseAll();
    // Those releases, and what is left in the background gets one command's time, no more: the
    // leases run out by themselves.
    await this.#until(() => !core.isBusy, core.commands.limitMs);
    await Promise.race([stopped, pause(core.clock, DEFAULTS.settleMs)]);
    core.renewals.close();
    core.cleanUp.close();
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
