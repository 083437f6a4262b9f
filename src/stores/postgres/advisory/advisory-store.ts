import { checkKeys } from '../../../checks.ts';
import { type Clock, systemClock } from '../../../clock.ts';
import { InvalidArgumentError } from '../../../errors.ts';
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
import { EvictionListeners } from '../../shared/eviction-listeners.ts';
import { queueMaxOf } from '../../shared/queue-max.ts';
import { connectionFactoryOf, type PostgresPool } from '../connection-factory.ts';
import { diagnose } from '../diagnose.ts';
import type { ConnectionFactory } from '../driver-connection.ts';
import type { Key } from '../key.ts';
import { Claims } from './claims.ts';
import { Inspect } from './inspect.ts';
import { KeyFinder } from './key-of-name.ts';
import { PolledObservers } from './polled-observers.ts';
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

export class AdvisoryStore implements Store {
  readonly kind = 'postgres-advisory';
  readonly traits: Traits = { lifetime: 'session', ordered: false, counting: false, remembers: false };
  readonly #factory: ConnectionFactory;
  readonly #evictions = new EvictionListeners();
  readonly onEvicted = this.#evictions.add;
  readonly #sessions: Sessions;
  readonly #keys: KeyFinder;
  readonly #observers: PolledObservers;
  readonly #claims: Claims;
  readonly #inspect: Inspect;

  constructor(factory: ConnectionFactory, options: PostgresAdvisoryStoreOptions) {
    const clock = options.clock ?? systemClock;
    const keys = new KeyFinder(options.key);
    const observers = new PolledObservers(clock);
    const sessions = new Sessions(factory, clock, {
      onNotification: (channel, payload) => this.#onNotification(channel, payload),
      onLost: () => this.#onLost(),
    });
    this.#factory = factory;
    this.#sessions = sessions;
    this.#keys = keys;
    this.#observers = observers;
    const parts = { clock, sessions, keys, observers, evictions: this.#evictions };
    this.#claims = new Claims({ ...parts, queueMax: queueMaxOf(options) });
    this.#inspect = new Inspect({ clock, sessions, keys, claims: this.#claims });
  }

  claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    return this.#claims.claim(request, signal, waiter);
  }

  renew(ref: ClaimRef, change: RenewChange): Promise<RenewOutcome> {
    return this.#claims.renew(ref, change);
  }

  release(ref: ClaimRef): Promise<boolean> {
    return this.#claims.release(ref);
  }

  evict(ref: ClaimRef): Promise<boolean> {
    return this.#inspect.evict(ref);
  }

  async watch({ name }: WatchTarget, onChange: () => void): Promise<AsyncDisposable> {
    const session = await this.#sessions.current(null);
    const key = await this.#keys.find(name, session);
    return this.#observers.add(key.text, onChange);
  }

  read(name: string): Promise<readonly StoredClaim[]> {
    return this.#inspect.read(name);
  }

  /**
   * The locks that this process holds. Rejects with `UnsupportedError` when it holds none: the names
   * of other locks cannot be known.
   */
  async *list(prefix: string): AsyncIterable<string> {
    this.#sessions.assertOpen();
    yield* this.#inspect.list(prefix);
  }

  async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    this.#sessions.assertOpen();
    return await diagnose({ factory: this.#factory, connections: 1, tables: null }, context);
  }

  async close(): Promise<void> {
    this.#observers.clear();
    this.#evictions.clear();
    await this.#sessions.close();
    this.#claims.locks.clear();
  }

  #onNotification(channel: string, payload: string): void {
    if (channel === CHANNEL) this.#claims.onReleasedElsewhere(payload);
    else this.#inspect.onMessage(payload);
  }

  /** Woken holders find that their claims are lost. Woken waiters enter the queue again. */
  #onLost(): void {
    for (const { waiter } of this.#claims.locks.clear()) waiter?.wake();
    this.#observers.notifyAll();
  }
}
