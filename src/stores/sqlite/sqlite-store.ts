import { type Clock, systemClock } from '../../clock.ts';
import { ClosedError, StoreError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
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
} from '../../store/store.ts';
import { lineMaxOf } from '../line-max.ts';
import { columnsOf } from '../mode-columns.ts';
import { BatchQueue, type Unit } from './batch-queue.ts';
import type { Connection } from './connection.ts';
import { type Host, hostOf } from './host.ts';
import type { SqliteDatabase } from './library.ts';
import { Line, type Now } from './line.ts';
import { isGone } from './process-mark.ts';
import { sourceOf } from './source.ts';
import { type ClaimRow, describeClaim } from './stored-claim.ts';
import { Waker } from './waker.ts';

/** What of a SQLite store can be set. */
export interface SqliteStoreOptions {
  /** How many claims may wait for one lock. Default 10,000. */
  readonly lineMax?: number | undefined;
  /** For tests: the same virtual clock as the Locks. Processes that share a file must all use the system's. */
  readonly clock?: Clock | undefined;
}

const FENCE_MAX = 2n ** 63n - 1n;
/** How many names one look at the list brings. */
const NAMES_PAGE = 256;
/** Without wake-ups from the file system, waiters ask this often. */
const DEAF_RETRY_MS = 250;
/** Comes after every name: a name has 512 bytes at most, and this is more of the greatest character there is. */
const LAST_NAME = '\u{10ffff}'.repeat(129);

export class SqliteStore implements Store {
  readonly traits: Traits = { lifetime: 'lease', ordered: true, counting: true, remembers: true };
  readonly #host: Host;
  readonly #lineMax: number;
  readonly #queue: BatchQueue;
  readonly #waker: Waker;
  #lastFence = 0n;
  #closed = false;

  constructor(source: string | SqliteDatabase, options: SqliteStoreOptions, host?: Host) {
    const clock = options.clock ?? systemClock;
    this.#host = host ?? hostOf(clock);
    this.#lineMax = lineMaxOf(options);
    const { path, connect } = sourceOf(source, this.#host.bootId);
    this.#queue = new BatchQueue(clock, path ?? 'in memory', connect, (db) => this.#tidy(db));
    this.#waker = new Waker(path, () => this.#onWake());
    this.#queue.open();
  }

  async claim(request: ClaimRequest, signal?: AbortSignal): Promise<ClaimOutcome> {
    if (request.fenceAbove >= FENCE_MAX)
      throw new StoreError('SQLite cannot count fences that high', { applied: 'no' });
    return await this.#queue.submit(
      (unit) => this.#claimFree(unit, request) ?? this.#claimInLine(unit, request),
      signal,
    );
  }

  async renew(ref: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    const held = await this.#queue.submit((unit) => {
      const { note, ttlMs } = change;
      if (note === undefined) return this.#renew(unit, ref, ttlMs);
      return unit.transact(
        () => this.#renew(unit, ref, ttlMs) && unit.db.run('annotate', note, ref.name, ref.id) === 1,
      );
    }, signal);
    return held ? { held, validForMs: change.ttlMs } : { held };
  }

  async release(ref: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return await this.#queue.submit((unit) => {
      const { boot, ms, wallMs } = this.#now(unit);
      if (unit.db.run('releaseUnwaited', ref.name, ref.id, boot, ms, wallMs) === 1) return true;
      return unit.transact(() => this.#remove(unit, ref));
    }, signal);
  }

  async evict(ref: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return await this.release(ref, signal);
  }

  async watch(target: WatchTarget, wake: () => void): Promise<AsyncDisposable> {
    if (this.#closed) throw new ClosedError('This store is closed');
    const { name, id } = target;
    const end = this.#waker.add(target, wake);
    const { mark } = this.#waker;
    try {
      await this.#queue.submit((unit) => announceWatch(unit, target, mark));
    } catch (error) {
      end();
      throw error;
    }
    return {
      [Symbol.asyncDispose]: async () => {
        const wasLast = end();
        if (id !== undefined || !wasLast || this.#closed) return;
        await this.#queue.submit((unit) => void unit.db.run('dropWatch', name, mark)).catch(() => {});
      },
    };
  }

  async read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]> {
    return await this.#queue.submit((unit) => {
      const { boot, ms, wallMs } = this.#now(unit);
      const live = [boot, ms, wallMs] as const;
      const rows = unit.db.all<ClaimRow>('read', ...live, boot, ms, name, ...live, ...live, name, ...live);
      return rows.map(describeClaim);
    }, signal);
  }

  async *list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    for (let after = ''; ; ) {
      const names = await this.#queue.submit((unit) => this.#namesAfter(unit, prefix, after), signal);
      yield* names;
      if (names.length < NAMES_PAGE) return;
      after = names.at(-1) ?? after;
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const { mark } = this.#waker;
    this.#waker.close();
    await this.#queue.close((unit) => {
      unit.transact(() => {
        unit.db.run('dropPlaces', mark);
        unit.db.run('dropWatches', mark);
        this.#tidy(unit.db);
      });
    });
  }

  /** Locks that nobody asks for again would otherwise keep their last rows for ever. The fence counter stays. */
  #tidy(db: Connection): void {
    const { boot, ms, wallMs } = this.#now({ db });
    db.run('pruneHolds', boot, ms, wallMs);
    db.run('prunePlaces', boot, ms, wallMs);
    for (const { mark } of db.all<{ mark: string }>('marks').filter((each) => isGone(each.mark))) {
      db.run('dropPlaces', mark);
      db.run('dropWatches', mark);
    }
  }

  #now(unit: { db: Connection }): Now {
    return {
      boot: unit.db.bootNumber,
      ms: Math.floor(this.#host.monotonicMs()),
      wallMs: Math.floor(this.#host.wallMs()),
    };
  }

  /** The common case, in one statement. The fence is proposed here, and the statement takes it only when it is the greatest so far. */
  #claimFree(unit: Unit, request: ClaimRequest): ClaimOutcome | null {
    const { name, id, mode, ttlMs, note } = request;
    const now = this.#now(unit);
    const fence = this.#fenceAfter(this.#lastFence, request.fenceAbove);
    // Then a claim that is already held is still renewed, and any other refused, the long way.
    if (fence > FENCE_MAX) return null;
    const { count, of } = columnsOf(mode);
    const until = now.ms + ttlMs;
    const wallUntil = now.wallMs + ttlMs;
    if (unit.db.run('claimFree', name, id, fence, count, of, now.boot, now.ms, until, wallUntil, note) !== 1)
      return null;
    this.#lastFence = fence;
    return { granted: true, fence, validForMs: ttlMs };
  }

  #claimInLine(unit: Unit, request: ClaimRequest): ClaimOutcome {
    return unit.transact(() => {
      // Only now is the lock on the database ours, so only now is "now" later than all that others have written.
      const now = this.#now(unit);
      const line = new Line(unit, now, request.name);
      const held = unit.db.all<{ fence: string }>('ownHold', request.name, request.id)[0];
      if (held !== undefined) {
        // By the same clock reading that found it alive: one that ran out between two of them would be told as held and not be.
        this.#renew(unit, request, request.ttlMs, now);
        return { granted: true, fence: BigInt(held.fence), validForMs: request.ttlMs };
      }
      const waits = line.placeOf(request.id) !== null;
      if (!waits) line.assertAgrees(request.mode);
      const standing = line.stand(request);
      const outcome = standing.fits
        ? this.#grant(unit, now, line, request)
        : this.#refuse(line, request, waits, standing.isHead);
      if (line.expired > 0) this.#handOver(unit, request.name);
      return outcome;
    });
  }

  #refuse(line: Line, request: ClaimRequest, waits: boolean, isHead: boolean): ClaimOutcome {
    const mostMs = this.#waker.isListening ? DEFAULTS.placeMs / 3 : DEAF_RETRY_MS;
    if (!request.wait && !waits)
      return { granted: false, retryAfterMs: line.retryAfterMs(null, false, mostMs) };
    const place = line.wait(request, this.#waker.mark, DEFAULTS.placeMs, this.#lineMax);
    if (!waits && line.isWatched) line.handOver([], this.#waker.tell);
    return { granted: false, retryAfterMs: line.retryAfterMs(place, isHead, mostMs) };
  }

  #grant(unit: Unit, now: Now, line: Line, request: ClaimRequest): ClaimOutcome {
    const { name, id, mode, ttlMs, note } = request;
    const last = BigInt(unit.db.all<{ fence: string }>('lastFence')[0]?.fence ?? 0);
    if (last >= FENCE_MAX) throw new StoreError('SQLite cannot count fences any higher', { applied: 'no' });
    unit.db.run('removePlace', name, id);
    const fence = this.#fenceAfter(last, request.fenceAbove);
    const { count, of } = columnsOf(mode);
    const isWatched = line.isWatched;
    const waited = isWatched || line.hasWaiters ? 1 : 0;
    const until = now.ms + ttlMs;
    unit.db.run(
      'grant',
      name,
      id,
      fence,
      count,
      of,
      waited,
      now.boot,
      now.ms,
      until,
      now.wallMs + ttlMs,
      note,
    );
    if (isWatched) line.handOver([], this.#waker.tell);
    this.#lastFence = fence;
    return { granted: true, fence, validForMs: ttlMs };
  }

  #renew(unit: Unit, ref: ClaimRef, ttlMs: number, { boot, ms, wallMs } = this.#now(unit)): boolean {
    return unit.db.run('renew', boot, ms + ttlMs, wallMs + ttlMs, ref.name, ref.id, boot, ms, wallMs) === 1;
  }

  #remove(unit: Unit, ref: ClaimRef): boolean {
    const line = new Line(unit, this.#now(unit), ref.name);
    const removed =
      unit.db.run('removeHold', ref.name, ref.id) + unit.db.run('removePlace', ref.name, ref.id) > 0;
    if (!removed && line.expired === 0) return false;
    this.#handOver(unit, ref.name);
    return removed;
  }

  /** After a hold or a place has gone: whose turn is it now? */
  #handOver(unit: Unit, name: string): void {
    const line = new Line(unit, this.#now(unit), name);
    line.handOver(line.stand(null).turns, this.#waker.tell);
  }

  /** A hybrid logical clock: above everything seen, and near the wall clock so that a new database goes on where a lost one ended. */
  #fenceAfter(last: bigint, above: bigint): bigint {
    let fence = BigInt(Math.floor(this.#host.wallMs() * 1000));
    if (fence <= last) fence = last + 1n;
    if (fence <= above) fence = above + 1n;
    return fence;
  }

  #namesAfter(unit: Unit, prefix: string, after: string): string[] {
    const { boot, ms, wallMs } = this.#now(unit);
    const values = [after, prefix + LAST_NAME, prefix, prefix, boot, ms, wallMs] as const;
    return unit.db.all<{ name: string }>('names', ...values, ...values, NAMES_PAGE).map(({ name }) => name);
  }

  /** Somebody wrote to our file: the database says for which of our claims. */
  #onWake(): void {
    if (this.#closed) return;
    this.#queue
      .submit((unit) => unit.db.all<{ id: string }>('turns', this.#waker.mark).map(({ id }) => id))
      .then((ids) => this.#waker.wakeClaims(ids))
      .catch(() => {});
  }
}

/** Tells the others whom to wake. */
function announceWatch(unit: Unit, { name, id }: WatchTarget, mark: string): void {
  if (id !== undefined) {
    unit.db.run('moveMark', mark, id, name, mark);
    return;
  }
  unit.transact(() => {
    unit.db.run('addWatch', name, mark);
    // Also the one that holds it now must go the long way when it releases.
    unit.db.run('markWaited', name);
  });
}
