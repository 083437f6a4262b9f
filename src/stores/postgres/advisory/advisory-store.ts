import { checkKeys } from '../../../checks.ts';
import { ownerOf } from '../../../claim-id.ts';
import { type Clock, systemClock, type Timer } from '../../../clock.ts';
import { InvalidArgumentError, StoreError, UnsupportedError } from '../../../errors.ts';
import type { DiagnoseContext, Finding } from '../../../store/finding.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Store,
  StoredClaim,
  Traits,
  Waiter,
  WatchTarget,
} from '../../../store/store.ts';
import { CallbackIndex, Callbacks, disposable } from '../../shared/callback-index.ts';
import { queueMaxOf } from '../../shared/queue-max.ts';
import type { ConnectionFactory } from '../connection.ts';
import { connectionFactoryOf, type PostgresPool } from '../connection-factory.ts';
import { diagnose } from '../diagnose.ts';
import { gaveUp } from '../failure.ts';
import type { Key } from '../key.ts';
import { Inspect } from './inspect.ts';
import { type Claim, Lock, type LockContext } from './lock.ts';
import { KeyFinder } from './lock-key.ts';
import { TRUST_MS } from './session.ts';
import { Sessions } from './sessions.ts';
import { CHANNEL } from './statement.ts';

/** Options of an advisory store. */
export interface PostgresAdvisoryStoreOptions {
  /**
   * Maps a name to the key that other programs use for the same lock. Default:
   * `hashtextextended(name, 0)`.
   */
  readonly key?: ((name: string) => Key) | undefined;
  /** How many claims of this process may wait for one lock. Default 10,000. */
  readonly queueMax?: number | undefined;
  /** For tests: the same clock as the `Locks`. */
  readonly clock?: Clock | undefined;
}

/**
 * PostgreSQL's advisory locks, which belong to a session and need no table. All holds of this store
 * share one connection, opened beside the pool with the same settings. When that connection ends, the
 * holds are lost, and the holders learn of it at once. Locks are exclusive or shared. There are no
 * permits, processes are not served in order, and nothing is remembered.
 *
 * Throws `InvalidArgumentError` for a pool or an option that cannot be used. The first claim
 * rejects with `UnsupportedError` behind a pooler, and with a `StoreError` when the server is a
 * standby.
 */
export function postgresAdvisoryStore(pool: PostgresPool, options: PostgresAdvisoryStoreOptions = {}): Store {
  const { key } = checkKeys(options, ['key', 'queueMax', 'clock']);
  if (key !== undefined && typeof key !== 'function')
    throw new InvalidArgumentError('key', 'must be a function from a name to a key');
  return new AdvisoryStore(connectionFactoryOf(pool), options);
}

/** How often a call starts again because the lock changed while it waited, before it is refused. */
const TRIES = 8;
/** A grant to another process sends no message, so observers are called this often. */
const OBSERVE_MS = 1_000;

export class AdvisoryStore implements Store {
  readonly kind = 'postgres-advisory';
  readonly traits: Traits = { lifetime: 'session', ordered: false, counting: false, remembers: false };
  readonly #factory: ConnectionFactory;
  readonly #evictions = new Callbacks<[id: string | null]>();
  readonly onEvicted = this.#evictions.add;
  readonly #sessions: Sessions;
  readonly #keys: KeyFinder;
  readonly #observers = new CallbackIndex();
  #observerTimer: Timer | null = null;
  readonly #inspect: Inspect;
  /** The locks that this process holds or waits for, by key. */
  readonly #locks = new Map<string, Lock>();
  readonly #lockContext: LockContext;
  /** The holds that were evicted, until their next renewal. */
  readonly #evicted = new Set<string>();

  constructor(factory: ConnectionFactory, options: PostgresAdvisoryStoreOptions) {
    const clock = options.clock ?? systemClock;
    this.#factory = factory;
    this.#sessions = new Sessions(factory, {
      clock,
      onNotification: (channel, payload) => this.#onNotification(channel, payload),
      onLost: () => this.#onLost(),
    });
    this.#keys = new KeyFinder(options.key);
    this.#lockContext = {
      clock,
      queueMax: queueMaxOf(options),
      onChange: ({ key }) => this.#observers.call(key.text),
      onUnused: (lock) => {
        if (this.#locks.get(lock.key.text) === lock) this.#locks.delete(lock.key.text);
      },
    };
    this.#inspect = new Inspect({
      clock,
      sessions: this.#sessions,
      keys: this.#keys,
      locks: this.#locks,
      evictHere: (ref) => this.#evictHere(ref),
    });
  }

  async claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    if (request.mode.kind === 'permits') throw new UnsupportedError('Advisory locks cannot count permits');
    for (let tries = 0; tries < TRIES; tries += 1) {
      const session = this.#sessions.now ?? (await this.#sessions.current(signal));
      if (!session.isNamed) session.introduce(ownerOf(request.id));
      const key = this.#keys.known(request.name, session) ?? (await this.#keys.find(request.name, session));
      // Again, where other claims that waited for the same count have used up the limit.
      while (!this.#locks.has(key.text) && !session.isWithinLimit(this.#locks.size))
        await session.extendLimit(this.#locks.size, signal);
      // The caller may have given up while this call waited for a connection.
      if (signal?.aborted === true) throw gaveUp();
      if (session.isLost) continue;
      let lock = this.#locks.get(key.text);
      if (lock === undefined) {
        lock = new Lock(key, session, this.#lockContext);
        this.#locks.set(key.text, lock);
      }
      const outcome = await lock.claim(request, signal, waiter);
      if (outcome !== null) return outcome;
    }
    return { granted: false, retryAfterMs: null };
  }

  async renew(ref: ClaimRef, change: RenewChange): Promise<RenewOutcome> {
    const { lock, claim } = await this.#find(ref);
    if (claim === undefined || claim.fence === null || !(await lock?.isConfirmed(claim)))
      return { held: false, how: this.#evicted.delete(ref.id) ? 'taken' : 'session' };
    if (change.note !== undefined) claim.note = change.note;
    return { held: true, validForMs: TRUST_MS };
  }

  async release(ref: ClaimRef): Promise<boolean> {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const { lock, claim } = await this.#find(ref);
      if (lock === undefined || claim === undefined) return false;
      if (claim.pending === null) return await lock.remove(claim);
      await claim.follow(claim.pending).catch(() => {});
    }
    throw new StoreError('The claim could not be released while it was asked for again', { applied: 'no' });
  }

  evict(ref: ClaimRef): Promise<boolean> {
    return this.#inspect.evict(ref);
  }

  async watch({ name }: WatchTarget, onChange: () => void): Promise<AsyncDisposable> {
    const session = await this.#sessions.current();
    const key = await this.#keys.find(name, session);
    // Closed meanwhile: nothing would end the timer.
    this.#sessions.assertOpen();
    this.#observerTimer ??= this.#pollObservers();
    return disposable(this.#observers.add(key.text, onChange));
  }

  read(name: string): Promise<readonly StoredClaim[]> {
    return this.#inspect.read(name);
  }

  /** The locks that this process holds. Rejects with `UnsupportedError` when it holds none. */
  async *list(prefix: string): AsyncIterable<string> {
    this.#sessions.assertOpen();
    yield* this.#inspect.list(prefix);
  }

  async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    this.#sessions.assertOpen();
    return await diagnose({ factory: this.#factory, connections: 1, schema: null }, context);
  }

  async close(): Promise<void> {
    this.#observers.clear();
    this.#observerTimer?.cancel();
    this.#evictions.clear();
    await this.#sessions.close();
    this.#endLocks();
  }

  async #find({ name, id }: ClaimRef): Promise<{ lock?: Lock | undefined; claim?: Claim | undefined }> {
    this.#sessions.assertOpen();
    const session = this.#sessions.now;
    if (session === null) return {};
    const key = this.#keys.known(name, session) ?? (await this.#keys.find(name, session));
    const lock = this.#locks.get(key.text);
    return { lock, claim: lock?.find(id) };
  }

  /** Removes a claim of this process. Its holder is told, renews, and so learns of the loss. */
  async #evictHere(ref: ClaimRef): Promise<boolean> {
    const { claim } = await this.#find(ref);
    if (claim === undefined) return false;
    let isRemoved = false;
    // Before the release, because a renewal may come meanwhile. Without a waiter nobody renews.
    if (claim.waiter !== undefined) this.#evicted.add(ref.id);
    try {
      isRemoved = await this.release(ref);
    } finally {
      if (!isRemoved || claim.fence === null) this.#evicted.delete(ref.id);
    }
    if (isRemoved && claim.fence === null) claim.waiter?.wake();
    else if (isRemoved) this.#evictions.call(ref.id);
    return isRemoved;
  }

  #pollObservers(): Timer {
    return this.#lockContext.clock.startTimer(OBSERVE_MS, () => {
      this.#observerTimer = this.#observers.isEmpty ? null : this.#pollObservers();
      this.#observers.callAll();
    });
  }

  #onNotification(channel: string, payload: string): void {
    if (channel === CHANNEL) {
      this.#locks.get(payload)?.onReleasedElsewhere();
      this.#observers.call(payload);
    } else this.#inspect.onMessage(payload);
  }

  /** Woken holders find that their claims are lost. Woken waiters enter the queue again. */
  #onLost(): void {
    for (const { waiter } of this.#endLocks()) waiter?.wake();
    this.#observers.callAll();
  }

  #endLocks(): readonly Claim[] {
    const locks = [...this.#locks.values()];
    this.#locks.clear();
    return locks.flatMap((lock) => lock.end());
  }
}
