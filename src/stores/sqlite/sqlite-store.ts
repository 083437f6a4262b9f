import { type Clock, systemClock, type Timer } from '../../clock.ts';
import type { DiagnoseContext, Finding } from '../../store/finding.ts';
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
} from '../../store/store.ts';
import { CallbackIndex, Callbacks, disposable } from '../shared/callback-index.ts';
import { queueMaxOf } from '../shared/queue-max.ts';
import { WakeList } from '../shared/wake-list.ts';
import { type Announce, Claims } from './claims.ts';
import type { SqliteDatabase } from './client-library.ts';
import type { Connection } from './connection.ts';
import { sourceOf } from './database-file.ts';
import { FileNotifier } from './file-notifier.ts';
import { assertHostClock, type Host, hostOf } from './host-clock.ts';
import { NAMES_PAGE, namesAfter, readClaims } from './inspect.ts';
import { FIRST_MS } from './lock-queue.ts';
import { isGone } from './process-tag.ts';
import { Transactions } from './transactions.ts';

/** Options of a SQLite store. */
export interface SqliteStoreOptions {
  /** How many claims may wait for one lock. Default 10,000. */
  readonly queueMax?: number | undefined;
  /**
   * For tests: the same virtual clock as the Locks. Processes that share a file must all use the
   * system's.
   */
  readonly clock?: Clock | undefined;
}

/** How often a store that makes claims removes expired rows, and those of ended processes. */
const PRUNE_MS = 20_000;

export class SqliteStore implements Store {
  readonly kind = 'sqlite';
  readonly traits: Traits = { lifetime: 'lease', ordered: true, counting: true, remembers: true };
  readonly #clock: Clock;
  readonly #path: string | null;
  readonly #transactions: Transactions;
  readonly #claims: Claims;
  readonly #notifier: FileNotifier;
  readonly #waiting: WakeList;
  readonly #observers = new CallbackIndex();
  readonly #evictions = new Callbacks<[id: string | null]>();
  readonly onEvicted = this.#evictions.add;
  #pruneTimer: Timer | null = null;
  #closed = false;

  /** `openLater`: a file that cannot be used is found by the first call. `host`: for tests. */
  constructor(
    source: string | SqliteDatabase,
    options: SqliteStoreOptions,
    { host, openLater = false }: { readonly host?: Host; readonly openLater?: boolean | undefined } = {},
  ) {
    this.#clock = options.clock ?? systemClock;
    this.#waiting = new WakeList(this.#clock, { min: FIRST_MS, max: FIRST_MS });
    const { path, connect } = sourceOf(source, host ?? hostOf(this.#clock));
    this.#path = path;
    if (path !== null) assertHostClock(this.#clock);
    this.#notifier = new FileNotifier(path, this.#onNotified, () => this.#evictions.call(null));
    this.#claims = new Claims(queueMaxOf(options), this.#notifier, this.#announce);
    this.#transactions = new Transactions(this.#clock, path ?? 'in memory', connect);
    if (!openLater) this.#transactions.open();
  }

  claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    this.#pruneLater();
    return this.#transactions.run((db) => {
      const outcome = this.#claims.claim(db, request);
      db.effects.push(() => {
        if (outcome.granted || !request.wait) this.#waiting.remove(request);
        else if (waiter !== undefined) {
          this.#waiting.add(request, waiter);
          this.#waiting.enqueue(request);
        }
      });
      return outcome;
    }, signal);
  }

  async renew(ref: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    const held = await this.#transactions.run((db) => this.#claims.renew(db, ref, change), signal);
    return held ? { held, validForMs: change.ttlMs } : { held };
  }

  release(ref: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    this.#waiting.remove(ref);
    return this.#transactions.run((db) => this.#claims.release(db, ref), signal);
  }

  async evict(ref: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    const isRemoved = await this.#transactions.run((db) => this.#claims.release(db, ref), signal);
    if (isRemoved) {
      this.#evictions.call(ref.id);
      this.#notifier.notifyOfEviction();
    }
    return isRemoved;
  }

  async watch({ name }: WatchTarget, onChange: () => void): Promise<AsyncDisposable> {
    this.#notifier.listen();
    const { tag } = this.#notifier;
    const remove = this.#observers.add(name, onChange);
    const end = async (): Promise<void> => {
      if (!remove()) return;
      await this.#transactions.run((db) => void db.run('dropWatch', name, tag)).catch(() => {});
    };
    try {
      await this.#transactions.run((db) =>
        db.transact(() => {
          db.run('addWatch', name, tag);
          // So that the current holder notifies as well, when it releases.
          db.run('markWaited', name);
        }),
      );
    } catch (error) {
      await end();
      throw error;
    }
    return disposable(end);
  }

  read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]> {
    return this.#transactions.run((db) => readClaims(db, name), signal);
  }

  async *list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    let names: string[] = [];
    do {
      const after = names.at(-1) ?? '';
      names = await this.#transactions.run((db) => namesAfter(db, prefix, after), signal);
      yield* names;
    } while (names.length === NAMES_PAGE);
  }

  async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    const { diagnoseSqlite } = await import('./diagnose.ts');
    return await diagnoseSqlite(context, this.#path, this.#transactions, this.#notifier);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#pruneTimer?.cancel();
    this.#notifier.close();
    this.#waiting.clear();
    this.#observers.clear();
    this.#evictions.clear();
    await this.#transactions.close(this.#prune);
  }

  readonly #announce: Announce = (name, woken, tags) => {
    this.#wake(woken);
    this.#observers.call(name);
    this.#notifier.notify(tags);
  };

  #wake(claims: readonly { readonly id: string }[]): void {
    for (const { id } of claims) this.#waiting.get(id)?.waiter.wake();
  }

  /** The database tells which claims of this process were woken. */
  readonly #onNotified = (): void => {
    this.#observers.callAll();
    this.#transactions
      .run((db) => db.all<{ id: string }>('woken', this.#notifier.tag))
      .then((woken) => this.#wake(woken))
      .catch(() => {});
  };

  /** Killed processes leave rows behind, and there may be no traffic that removes them. */
  #pruneLater(): void {
    if (this.#closed) return;
    this.#pruneTimer ??= this.#clock.startTimer(PRUNE_MS, () => {
      this.#pruneTimer = null;
      this.#transactions.run(this.#prune).catch(() => {});
      this.#pruneLater();
    });
  }

  /** Removes the rows of locks that may never be asked for again. The fence counter stays. */
  readonly #prune = (db: Connection): void =>
    db.transact(() => {
      db.run('pruneHolds', ...db.now());
      db.run('pruneWaiting', ...db.now());
      for (const { tag } of db.all<{ tag: string }>('tags')) {
        if (!isGone(tag) && !(this.#closed && tag === this.#notifier.tag)) continue;
        db.run('pruneProcess', tag);
        db.run('pruneWatches', tag);
      }
    });
}
