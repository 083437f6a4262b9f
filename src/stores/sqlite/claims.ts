import { StoreError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import type { ClaimOutcome, ClaimRef, ClaimRequest, RenewChange } from '../../store/store.ts';
import { columnsOf } from '../shared/mode-columns.ts';
import type { Connection } from './connection.ts';
import type { FileNotifier } from './file-notifier.ts';
import { endOf, type Now } from './host-clock.ts';
import { LockQueue, type Standing } from './lock-queue.ts';

const FENCE_MAX = 2n ** 63n - 1n;
/** Waiters that no other process can notify ask this often. */
const POLL_MS = 250;

interface Woken {
  readonly id: string;
  readonly tag: string;
}

/** `tags`: the processes of the claims that are woken, and those that observe the lock. */
export type Announce = (name: string, woken: readonly Woken[], tags: ReadonlySet<string>) => void;

/** The operations on claims. Each is one transaction, or a single statement where one is enough. */
export class Claims {
  readonly #queueMax: number;
  readonly #notifier: FileNotifier;
  readonly #announce: Announce;
  #lastFence = 0n;

  constructor(queueMax: number, notifier: FileNotifier, announce: Announce) {
    this.#queueMax = queueMax;
    this.#notifier = notifier;
    this.#announce = announce;
  }

  claim(db: Connection, request: ClaimRequest): ClaimOutcome {
    const { name, id, mode, ttlMs, note, fenceAbove } = request;
    if (fenceAbove >= FENCE_MAX) throw fencesExhausted();
    const now = db.now();
    const fence = fenceAfter(now, this.#lastFence, fenceAbove);
    const { count, of } = columnsOf(mode);
    // One statement. It takes the fence proposed here only if that is the greatest so far.
    const free = [name, id, fence, count, of, now[1], ...endOf(now, ttlMs), note] as const;
    if (fence > FENCE_MAX || db.run('claimFree', ...free) !== 1)
      return db.transact(() => this.#claimContended(db, request));
    this.#lastFence = fence;
    return { granted: true, fence, validForMs: ttlMs };
  }

  renew(db: Connection, ref: ClaimRef, { ttlMs, note }: RenewChange): boolean {
    if (note === undefined) return this.#renew(db, ref, ttlMs);
    const { name, id } = ref;
    return db.transact(() => {
      if (!this.#renew(db, ref, ttlMs)) return false;
      // A changed note may say that waiting is pointless.
      if (db.run('annotate', note, name, id, note) === 1)
        this.#notify(db, name, db.all<Woken>('wakeAll', name));
      return true;
    });
  }

  release(db: Connection, { name, id }: ClaimRef): boolean {
    if (db.run('releaseUnwaited', name, id, ...db.now()) === 1) return true;
    return db.transact(() => {
      const expired = db.run('expireHolds', name, ...db.now());
      const removed = db.run('removeHold', name, id) + db.run('removeWaiting', name, id) > 0;
      if (removed || expired > 0) this.#handOff(db, name);
      return removed;
    });
  }

  #claimContended(db: Connection, request: ClaimRequest): ClaimOutcome {
    const { name, id, ttlMs } = request;
    const now = db.now();
    const queue = new LockQueue(db, name, this.#notifier.tag, now);
    const [held] = db.all<{ fence: string }>('ownHold', name, id);
    if (held !== undefined) {
      // By the clock reading that found the hold alive: by a later one it might have expired.
      this.#renew(db, request, ttlMs, now);
      return { granted: true, fence: BigInt(held.fence), validForMs: ttlMs };
    }
    queue.assertCompatible(request);
    const standing = queue.standing(request);
    const outcome = standing.fits
      ? this.#grant(db, now, request)
      : this.#refuse(db, queue, request, standing);
    if (queue.hasRemoved) this.#handOff(db, name);
    return outcome;
  }

  #grant(db: Connection, now: Now, { name, id, mode, ttlMs, note, fenceAbove }: ClaimRequest): ClaimOutcome {
    const last = BigInt(db.all<{ fence: string }>('lastFence')[0]?.fence ?? 0);
    if (last >= FENCE_MAX) throw fencesExhausted();
    const fence = fenceAfter(now, last, fenceAbove);
    const { count, of } = columnsOf(mode);
    db.run('removeWaiting', name, id);
    db.run('grant', name, id, fence, count, of, name, name, now[1], ...endOf(now, ttlMs), note);
    this.#notify(db, name, []);
    this.#lastFence = fence;
    return { granted: true, fence, validForMs: ttlMs };
  }

  #refuse(db: Connection, queue: LockQueue, request: ClaimRequest, standing: Standing): ClaimOutcome {
    const isKnown = queue.keep(request);
    // Before the commit shows others that it waits, so that no notification is missed.
    if (isKnown || request.wait) this.#notifier.listen();
    if (request.wait && !isKnown) {
      queue.enqueue(request, this.#queueMax);
      this.#notify(db, request.name, []);
    }
    const mostMs = this.#notifier.isListening ? DEFAULTS.queuePositionMs / 3 : POLL_MS;
    return { granted: false, retryAfterMs: queue.retryAfterMs(request.id, standing, mostMs) };
  }

  /** Notifies the claims that can be granted now. */
  #handOff(db: Connection, name: string): void {
    const queue = new LockQueue(db, name, this.#notifier.tag);
    this.#notify(db, name, queue.giveTurns());
  }

  /** Notifies these waiters, and the observers of the lock. */
  #notify(db: Connection, name: string, woken: readonly Woken[]): void {
    const watching = db.all<{ tag: string }>('watchers', name);
    const tags = new Set([...woken, ...watching].map(({ tag }) => tag));
    if (tags.size > 0) db.effects.push(() => this.#announce(name, woken, tags));
  }

  #renew(db: Connection, { name, id }: ClaimRef, ttlMs: number, now = db.now()): boolean {
    return db.run('renew', ...endOf(now, ttlMs), name, id, ...now) === 1;
  }
}

/** A hybrid logical clock: near the wall clock, so that a new database continues above a lost one. */
function fenceAfter([, , wallMs]: Now, last: bigint, above: bigint): bigint {
  let fence = BigInt(wallMs) * 1_000n;
  if (fence <= last) fence = last + 1n;
  if (fence <= above) fence = above + 1n;
  return fence;
}

function fencesExhausted(): StoreError {
  return new StoreError('SQLite cannot count fences any higher', { applied: 'no' });
}
