import { type Clock, systemClock } from '../../../clock.ts';
import { InvalidArgumentError, UnsupportedError } from '../../../errors.ts';
import { DEFAULTS } from '../../../options.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Store,
  StoredClaim,
  Traits,
  WatchTarget,
} from '../../../store/store.ts';
import { Watchers } from '../../memory/watchers.ts';
import { dialOf, type PostgresPool } from '../dial.ts';
import type { Key } from '../key.ts';
import type { Dial } from '../wire.ts';
import { Asking, type Parts } from './asking.ts';
import { Budget } from './budget.ts';
import { KeyFinder } from './key-finder.ts';
import { LockTable } from './lock-table.ts';
import { Looking } from './looking.ts';
import { Observers } from './observers.ts';
import { TRUST_MS } from './session.ts';
import { Sessions } from './sessions.ts';
import { CHANNEL } from './statement.ts';

/** What of a store of advisory locks can be set. */
export interface PostgresAdvisoryStoreOptions {
  /** Maps a name to the key that other programs use for the same lock. Default: `hashtextextended(name, 0)`. */
  readonly key?: ((name: string) => Key) | undefined;
  /** How many claims of this process may wait for one lock. Default 10,000. */
  readonly lineMax?: number | undefined;
  /** For tests: the same clock as the Locks. */
  readonly clock?: Clock | undefined;
}

/**
 * Locks of a session, without a table: PostgreSQL's advisory locks. All holds of this store live on one connection, opened beside the pool with the same settings; when it ends, they are lost, and told at once.
 * Exclusive and shared; no permits, no order between processes, nothing is remembered.
 *
 * Throws `InvalidArgumentError` for a pool or an option that cannot be used. The first claim rejects with `UnsupportedError` when a pooler stands between, and with a `StoreError` when the server is a standby.
 */
export function postgresAdvisoryStore(pool: PostgresPool, options: PostgresAdvisoryStoreOptions = {}): Store {
  const { key, lineMax } = options;
  if (key !== undefined && typeof key !== 'function')
    throw new InvalidArgumentError('key', 'must be a function from a name to a key');
  if (lineMax !== undefined && (!Number.isInteger(lineMax) || lineMax < 1))
    throw new InvalidArgumentError('lineMax', 'must be a whole number from 1');
  return new AdvisoryStore(dialOf(pool), options);
}

export class AdvisoryStore implements Store {
  readonly traits: Traits = { lifetime: 'session', ordered: false, counting: false, remembers: false };
  readonly #parts: Parts;
  readonly #asking: Asking;
  readonly #looking: Looking;
  readonly #observers: Observers;

  constructor(dial: Dial, options: PostgresAdvisoryStoreOptions) {
    const clock = options.clock ?? systemClock;
    const watchers = new Watchers();
    const sessions = new Sessions(dial, clock, {
      onNotification: (channel, payload) => this.#onNotification(channel, payload),
      onLost: () => this.#onLost(),
    });
    this.#parts = {
      clock,
      sessions,
      watchers,
      table: new LockTable(),
      keys: new KeyFinder(options.key),
      budget: new Budget(clock),
      lineMax: options.lineMax ?? DEFAULTS.lineMax,
    };
    this.#asking = new Asking(this.#parts);
    this.#looking = new Looking(this.#parts, this.#asking);
    this.#observers = new Observers(clock, watchers);
  }

  claim(request: ClaimRequest, signal?: AbortSignal): Promise<ClaimOutcome> {
    return this.#asking.claim(request, signal);
  }

  async renew(ref: ClaimRef, change: RenewChange): Promise<RenewOutcome> {
    const found = await this.#asking.find(ref);
    if (found === 'nowhere') return { held: false };
    const [lock, claim] = found;
    if (claim.fence === null || !(await this.#asking.isConfirmed(lock, claim))) return { held: false };
    if (change.note !== undefined) claim.note = change.note;
    return { held: true, validForMs: TRUST_MS };
  }

  release(ref: ClaimRef): Promise<boolean> {
    return this.#asking.release(ref);
  }

  async evict(ref: ClaimRef): Promise<boolean> {
    return await this.#looking.evict(ref);
  }

  async watch(target: WatchTarget, wake: () => void): Promise<AsyncDisposable> {
    const { sessions, watchers, keys } = this.#parts;
    sessions.assertOpen();
    const { name, id } = target;
    if (id !== undefined) {
      // Lost before anybody listened, perhaps with another session since then.
      if (!this.#asking.isHere({ name, id })) wake();
      return watchers.add(target, wake);
    }
    const session = await sessions.current(null);
    const key = keys.known(name, session) ?? (await keys.find(name, session));
    return this.#observers.add(key.text, wake);
  }

  async read(name: string): Promise<readonly StoredClaim[]> {
    return await this.#looking.read(name);
  }

  /** What this process holds. Keys are hashes: the names of what others hold cannot be known, and when nothing of ours is found, that is said. */
  async *list(prefix: string): AsyncIterable<string> {
    this.#parts.sessions.assertOpen();
    const names = new Set<string>();
    for (const { name } of this.#parts.table.held()) if (name.startsWith(prefix)) names.add(name);
    if (names.size === 0)
      throw new UnsupportedError(
        'Advisory locks have keys and no names: only locks that this process holds can be listed, and it holds none of these',
      );
    yield* names;
  }

  async close(): Promise<void> {
    this.#observers.close();
    await this.#parts.sessions.close();
    this.#parts.table.clear();
    this.#parts.watchers.clear();
  }

  #onNotification(channel: string, payload: string): void {
    const { table, sessions, watchers } = this.#parts;
    const session = sessions.now;
    if (channel !== CHANNEL) {
      if (session !== null) this.#looking.mail.receive(payload, session);
      return;
    }
    const lock = table.get(payload);
    if (lock !== undefined) this.#asking.wakeHead(lock);
    watchers.tellName(payload);
  }

  /** The holds are lost, and those who waited are not seen to wait any more. */
  #onLost(): void {
    const { table, watchers } = this.#parts;
    const { held, waiting } = table.clear();
    for (const { id } of held) watchers.tellClaim(id);
    for (const { id } of waiting) watchers.tellClaim(id);
    this.#observers.tellAll();
  }
}
