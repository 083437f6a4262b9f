import { StoreError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import type { ClaimOutcome, ClaimRef, ClaimRequest, RenewChange } from '../../store/store.ts';
import { columnsOf } from '../shared/mode-columns.ts';
import type { Connection } from './connection.ts';
import type { FileNotifier } from './file-notifier.ts';
import { endOf, type Host, type Now } from './host-clock.ts';
import { LockQueue, type Standing } from './lock-queue.ts';
import type { OperationContext } from './transactions.ts';

const FENCE_MAX = 2n ** 63n - 1n;
/** Waiters that no other process can notify ask this often. */
const POLL_MS = 250;

/** `ids`: the claims that are woken. `tags`: the processes that wait for them, or observe. */
type Announce = (name: string, ids: readonly string[], tags: readonly string[]) => void;

/** The operations on claims. Each is one transaction, or a single statement where one is enough. */
export class Claims {
  readonly #host: Host;
  readonly #queueMax: number;
  readonly #notifier: FileNotifier;
  readonly #announce: Announce;
  #lastFence = 0n;

  constructor(host: Host, queueMax: number, notifier: FileNotifier, announce: Announce) {
    this.#host = host;
    this.#queueMax = queueMax;
    this.#notifier = notifier;
    this.#announce = announce;
  }

  /** Read inside the transaction: only then is it later than everything that others have written. */
  now(db: Connection): Now {
    return [db.bootNumber, Math.floor(this.#host.monotonicMs()), Math.floor(this.#host.wallMs())];
  }

  claim(context: OperationContext, request: ClaimRequest): ClaimOutcome {
    const { name, id, mode, ttlMs, note, fenceAbove } = request;
    if (fenceAbove >= FENCE_MAX) throw fencesExhausted();
    const now = this.now(context.db);
    const fence = this.#fenceAfter(this.#lastFence, fenceAbove);
    const { count, of } = columnsOf(mode);
    // One statement. It takes the fence proposed here only if that is the greatest so far.
    const free = [name, id, fence, count, of, now[1], ...endOf(now, ttlMs), note] as const;
    if (fence > FENCE_MAX || context.db.run('claimFree', ...free) !== 1)
      return context.transact(() => this.#claimContended(context, request));
    this.#lastFence = fence;
    return { granted: true, fence, validForMs: ttlMs };
  }

  renew(context: OperationContext, ref: ClaimRef, { ttlMs, note }: RenewChange): boolean {
    const { db, transact } = context;
    if (note === undefined) return this.#renew(db, ref, ttlMs);
    return transact(() => {
      if (!this.#renew(db, ref, ttlMs)) return false;
      if (db.run('annotate', note, ref.name, ref.id, note) === 1) this.#wakeAll(context, ref.name);
      return true;
    });
  }

  release(context: OperationContext, { name, id }: ClaimRef): boolean {
    if (context.db.run('releaseUnwaited', name, id, ...this.now(context.db)) === 1) return true;
    return context.transact(() => {
      const queue = this.#queueOf(context.db, name);
      const removed = context.db.run('removeHold', name, id) + context.db.run('removeWaiting', name, id) > 0;
      if (removed || queue.hasRemoved) this.#handOff(context, name);
      return removed;
    });
  }

  #claimContended(context: OperationContext, request: ClaimRequest): ClaimOutcome {
    const { name, id, ttlMs } = request;
    const now = this.now(context.db);
    const queue = this.#queueOf(context.db, name, now);
    const fence = queue.heldFence(id);
    if (fence !== null) {
      // By the clock reading that found the hold alive: by a later one it might have expired.
      this.#renew(context.db, request, ttlMs, now);
      return { granted: true, fence, validForMs: ttlMs };
    }
    const position = queue.positionOf(id);
    if (position === null) queue.assertCompatible(request.mode);
    const standing = queue.standing(request);
    const outcome = standing.fits
      ? this.#grant(context, now, queue, request)
      : this.#refuse(context, queue, request, position, standing);
    if (queue.hasRemoved) this.#handOff(context, name);
    return outcome;
  }

  #grant(context: OperationContext, now: Now, queue: LockQueue, request: ClaimRequest): ClaimOutcome {
    const { name, id, mode, ttlMs, note } = request;
    const last = BigInt(context.db.all<{ fence: string }>('lastFence')[0]?.fence ?? 0);
    if (last >= FENCE_MAX) throw fencesExhausted();
    context.db.run('removeWaiting', name, id);
    const fence = this.#fenceAfter(last, request.fenceAbove);
    const { count, of } = columnsOf(mode);
    const { watchers } = queue;
    const waited = watchers.length > 0 || queue.hasWaiters ? 1 : 0;
    context.db.run('grant', name, id, fence, count, of, waited, now[1], ...endOf(now, ttlMs), note);
    this.#notify(context, name, [], watchers);
    this.#lastFence = fence;
    return { granted: true, fence, validForMs: ttlMs };
  }

  #refuse(
    context: OperationContext,
    queue: LockQueue,
    request: ClaimRequest,
    position: number | null,
    standing: Standing,
  ): ClaimOutcome {
    const isWaiting = request.wait || position !== null;
    // Before the queue can be seen by others, so that no notification is missed.
    if (isWaiting) this.#notifier.listen();
    const mostMs = this.#notifier.isListening ? DEFAULTS.queuePositionMs / 3 : POLL_MS;
    const kept = isWaiting ? queue.wait(request, position, this.#queueMax) : null;
    if (isWaiting && position === null) this.#notify(context, request.name, [], queue.watchers);
    return { granted: false, retryAfterMs: queue.retryAfterMs(kept, standing, mostMs) };
  }

  /** Notifies the claims that can be granted now. */
  #handOff(context: OperationContext, name: string): void {
    const queue = this.#queueOf(context.db, name);
    const { turns } = queue.standing(null);
    queue.giveTurns(turns);
    const ids = turns.map(({ id }) => id);
    this.#notify(context, name, ids, [...turns.map(({ tag }) => tag), ...queue.watchers]);
  }

  /** Wakes every waiter: a changed note may say that waiting is pointless. */
  #wakeAll(context: OperationContext, name: string): void {
    context.db.run('wakeAll', name);
    const waiting = context.db.all<{ id: string; tag: string }>('waiting', name);
    const ids = waiting.map(({ id }) => id);
    this.#notify(context, name, ids, [
      ...waiting.map(({ tag }) => tag),
      ...this.#queueOf(context.db, name).watchers,
    ]);
  }

  #notify(context: OperationContext, name: string, ids: readonly string[], tags: readonly string[]): void {
    if (tags.length > 0) context.afterCommit(() => this.#announce(name, ids, tags));
  }

  #queueOf(db: Connection, name: string, now = this.now(db)): LockQueue {
    return new LockQueue(db, now, name, this.#notifier.tag);
  }

  #renew(db: Connection, { name, id }: ClaimRef, ttlMs: number, now = this.now(db)): boolean {
    return db.run('renew', ...endOf(now, ttlMs), name, id, ...now) === 1;
  }

  /** A hybrid logical clock: near the wall clock, so that a new database continues above a lost one. */
  #fenceAfter(last: bigint, above: bigint): bigint {
    let fence = BigInt(Math.floor(this.#host.wallMs() * 1000));
    if (fence <= last) fence = last + 1n;
    if (fence <= above) fence = above + 1n;
    return fence;
  }
}

function fencesExhausted(): StoreError {
  return new StoreError('SQLite cannot count fences any higher', { applied: 'no' });
}
