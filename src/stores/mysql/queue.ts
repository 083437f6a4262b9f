import { ModeMismatchError, QueueFullError } from '../../errors.ts';
import { agree, grantedCount } from '../../store/grant-rule.ts';
import type { ClaimRef, ClaimRequest, RenewChange, RenewOutcome, StoredClaim } from '../../store/store.ts';
import type { ClaimAnswer, ReleaseAnswer } from '../shared/server-queue-store.ts';
import type { Hold, LockRow, Queued } from './lock-row.ts';

/** The store that reads a row. */
export interface Reader {
  /** Identifies the store among all stores of the table. */
  readonly tag: string;
  /** Claims whose release has failed. They must not stay in the queue. */
  readonly leftovers: ReadonlySet<string>;
}

/** For a row that is only read. */
export const NOBODY: Reader = { tag: '', leftovers: new Set() };

/** A store that has not reported for this long that it is alive loses its turn: see `#passOverDead`. */
const ALIVE_US = 5_000_000;
/** How often a store reports that it is alive. */
const KEEP_US = 2_500_000;
/** A waiter of a store that was silent for this long is removed. */
const FORGET_US = 60_000_000;
/** A queue also counts as full when its text is this long: servers limit the length of a statement. */
const SIZE_MAX = 4_000_000;
/** How long the text of a waiter is beside its id and its note, or less. */
const WAITER_SIZE = 50;

/**
 * The claims of one lock as they were read, and what an operation makes of them. `grant-rule.ts`
 * says which are granted. A grant counts only once the row is written. The write fails if the row
 * has changed since it was read.
 */
export class RowQueue {
  readonly #reader: Reader;
  readonly isNew: boolean;
  #row: LockRow;
  /** Whether the row must be written. */
  isChanged = false;

  constructor(row: LockRow, reader: Reader) {
    const { nowUs } = row;
    this.#reader = reader;
    this.isNew = row.version === null;
    this.#row = {
      ...row,
      holds: row.holds.filter(({ expiresAtUs }) => expiresAtUs > nowUs),
      queue: row.queue.filter(({ seenAtUs }) => seenAtUs > nowUs - FORGET_US),
    };
    this.#limitToClock();
    this.#passOverDead();
  }

  /** The row as it is to be written. */
  get row(): LockRow {
    return this.#row;
  }

  onWritten(version: string): void {
    this.#row = { ...this.#row, version };
  }

  claim(request: ClaimRequest, queueMax: number): ClaimAnswer {
    const { name, id, mode, ttlMs, note, fenceAbove } = request;
    const { nowUs, floor } = this.#row;
    const expiresAtUs = nowUs + ttlMs * 1_000;
    const held = this.#row.holds.find((hold) => hold.id === id);
    if (held !== undefined) {
      this.#replace(held, { ttlMs, expiresAtUs });
      return { granted: true, fence: held.fence };
    }
    this.keep();
    const { holds, queue } = this.#row;
    const present = holds[0] ?? queue[0];
    if (present !== undefined && !agree(present.mode, mode))
      throw new ModeMismatchError(name, mode, present.mode);
    const position = queue.findIndex((waiting) => waiting.id === id);
    const ahead = position < 0 ? queue : queue.slice(0, position);
    if (granted([...holds, ...ahead, request]) > holds.length + ahead.length) {
      const fence = greatest([this.#row.fence + 1n, floor + 1n, fenceAbove + 1n, BigInt(nowUs)]);
      const hold = { id, mode, fence, grantedAtUs: nowUs, expiresAtUs, ttlMs, note };
      this.#change({ fence, holds: [...holds, hold], queue: queue.filter((waiting) => waiting.id !== id) });
      return { granted: true, fence };
    }
    if (position < 0 && request.wait) {
      const size = queue.reduce((sum, each) => sum + each.id.length + each.note.length + WAITER_SIZE, 0);
      if (queue.length >= queueMax || size + note.length > SIZE_MAX) throw new QueueFullError(name, queueMax);
      this.#change({ queue: [...queue, { id, mode, tag: this.#reader.tag, seenAtUs: nowUs, note }] });
    }
    const { endsInMs } = this;
    return { granted: false, endsInMs, isHead: ahead.length === 0, isForeign: false, serverTime: null };
  }

  renew({ id }: ClaimRef, { ttlMs, note }: RenewChange): RenewOutcome {
    const held = this.#row.holds.find((hold) => hold.id === id);
    // A proxy may have sent the read to a replica that is behind. Then this write fails.
    this.isChanged = true;
    if (held === undefined) return { held: false };
    const expiresAtUs = this.#row.nowUs + ttlMs * 1_000;
    this.#replace(held, { ttlMs, expiresAtUs, note: note ?? held.note });
    return { held: true, validForMs: ttlMs };
  }

  release({ id }: ClaimRef): ReleaseAnswer {
    const before = this.#row;
    const holds = before.holds.filter((hold) => hold.id !== id);
    const queue = before.queue.filter((waiting) => waiting.id !== id);
    // Also when nothing is found, as in `renew`.
    this.#change({ holds, queue });
    return holds.length + queue.length < before.holds.length + before.queue.length ? 'removed' : 'gone';
  }

  /**
   * Reports that this store is alive, if its last report is old. Removes the claims of this store
   * whose release has failed.
   */
  keep(): void {
    const { nowUs, queue } = this.#row;
    const { tag, leftovers } = this.#reader;
    const isOwn = (each: Queued): boolean => each.tag === tag;
    if (!queue.some((each) => isOwn(each) && each.seenAtUs < nowUs - KEEP_US)) return;
    const kept = queue.filter((each) => !isOwn(each) || !leftovers.has(each.id));
    this.#change({ queue: kept.map((each) => (isOwn(each) ? { ...each, seenAtUs: nowUs } : each)) });
  }

  /** The waiters that would be granted if they asked now, in order. */
  get next(): readonly Queued[] {
    const { holds, queue } = this.#row;
    return queue.slice(0, Math.max(granted([...holds, ...queue]) - holds.length, 0));
  }

  /** When the first hold expires, or a store that has its turn loses it. */
  get endsInMs(): number {
    const turnsUs = this.next.map(({ seenAtUs }) => seenAtUs + ALIVE_US);
    const endsUs = Math.min(...this.#row.holds.map(({ expiresAtUs }) => expiresAtUs), ...turnsUs);
    return Math.max((endsUs - this.#row.nowUs) / 1_000, 1);
  }

  read(): StoredClaim[] {
    const msUntil = (us: number): number => Math.ceil((us - this.#row.nowUs) / 1_000);
    const holds = this.#row.holds.map(({ id, mode, fence, grantedAtUs, expiresAtUs, note }) => {
      const heldForMs = Math.max(-msUntil(grantedAtUs), 0);
      return { id, granted: true, mode, fence, heldForMs, expiresInMs: msUntil(expiresAtUs), note };
    });
    const queue = this.#row.queue.map(({ id, mode, seenAtUs, note }) => {
      const expiresInMs = msUntil(seenAtUs + FORGET_US);
      return { id, granted: false, mode, fence: null, heldForMs: null, expiresInMs, note };
    });
    return [...holds, ...queue];
  }

  #change(change: Partial<LockRow>): void {
    this.#row = { ...this.#row, ...change };
    this.isChanged = true;
  }

  #replace(hold: Hold, by: Partial<Hold>): void {
    this.#change({ holds: this.#row.holds.map((each) => (each === hold ? { ...each, ...by } : each)) });
  }

  /**
   * A hold with more time left than its TTL, or a store last seen in the future, shows that the
   * server's clock was set back. Without this limit, a dead holder or store would stay for the
   * difference. The write makes the limit last.
   */
  #limitToClock(): void {
    const { nowUs, holds, queue } = this.#row;
    const latestUs = ({ ttlMs }: Hold): number => nowUs + ttlMs * 1_000;
    const isAhead =
      holds.some((hold) => hold.expiresAtUs > latestUs(hold)) || queue.some((each) => each.seenAtUs > nowUs);
    if (!isAhead) return;
    this.#change({
      holds: holds.map((hold) => ({ ...hold, expiresAtUs: Math.min(hold.expiresAtUs, latestUs(hold)) })),
      queue: queue.map((each) => ({ ...each, seenAtUs: Math.min(each.seenAtUs, nowUs) })),
    });
  }

  /**
   * A waiter that could be granted, but whose store is dead or stopped, must not keep the others
   * waiting: the silent waiters of that store leave the queue. If none of them could be granted
   * anyway, they stay, since the store may come back. Every reader finds the same, so that nothing
   * has to be written for it.
   */
  #passOverDead(): void {
    const silentUs = this.#row.nowUs - ALIVE_US;
    const isDead = ({ tag, seenAtUs }: Queued): boolean => seenAtUs < silentUs && tag !== this.#reader.tag;
    for (let dead = this.next.find(isDead); dead !== undefined; dead = this.next.find(isDead)) {
      const { tag } = dead;
      const queue = this.#row.queue.filter((each) => each.tag !== tag || !isDead(each));
      this.#row = { ...this.#row, queue };
    }
  }
}

function granted(claims: readonly Pick<ClaimRequest, 'mode'>[]): number {
  return grantedCount(claims.map(({ mode }) => mode));
}

export function greatest(fences: readonly bigint[]): bigint {
  let most = 0n;
  for (const fence of fences) if (fence > most) most = fence;
  return most;
}
