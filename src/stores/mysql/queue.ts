import { ModeMismatchError, QueueFullError } from '../../errors.ts';
import { agree, grantedCount } from '../../store/grant-rule.ts';
import type { ClaimRef, ClaimRequest, RenewChange, RenewOutcome, StoredClaim } from '../../store/store.ts';
import type { ClaimAnswer, ReleaseAnswer } from '../shared/server-queue-store.ts';
import { FORGET_US, type Hold, type LockRow, type Queued } from './lock-row.ts';

/** A waiter of which nothing was heard for this long loses its turn: see `#passOverDead`. */
const ALIVE_US = 5_000_000;
/** How often a store reports that its waiters still wait. */
const KEEP_US = 2_500_000;
/** A queue also counts as full when its text is this long: servers limit the length of a statement. */
const SIZE_MAX = 4_000_000;
/** About how many characters a waiter takes in the row, besides its id and its note. */
const WAITER_SIZE = 70;

const REFUSED = { granted: false, endsInMs: null } as const;

/**
 * The claims of one lock as they were read, and what an operation makes of them. `grant-rule.ts`
 * says which are granted. A grant counts only once the row is written. The write fails if the row
 * has changed since it was read.
 */
export class RowQueue {
  /** The version of the row as it was read. */
  readonly was: string | null;
  readonly #version: string;
  readonly #isWaiting: (id: string) => boolean;
  /** As it is now. It has to be written if its version is not `was` any more. */
  row: LockRow;

  /** `version`: for the row if it has to be written. `isWaiting`: whether this store waits for a claim. */
  constructor(row: LockRow, version: string, isWaiting: (id: string) => boolean) {
    const { nowUs } = row;
    this.was = row.version;
    this.#version = version;
    this.#isWaiting = isWaiting;
    this.row = {
      ...row,
      holds: row.holds.filter(({ expiresAtUs }) => expiresAtUs > nowUs),
      queue: row.queue.filter(({ seenAtUs }) => seenAtUs > nowUs - FORGET_US),
    };
    this.#limitToClock();
    this.#passOverDead();
  }

  claim(request: ClaimRequest, queueMax: number): ClaimAnswer {
    const { name, id, mode, ttlMs, note, fenceAbove } = request;
    const { nowUs, floor } = this.row;
    const expiresAtUs = nowUs + ttlMs * 1_000;
    const held = this.row.holds.find((hold) => hold.id === id);
    if (held !== undefined) {
      this.#replace(held, { ttlMs, expiresAtUs });
      return { granted: true, fence: BigInt(held.fence) };
    }
    this.keep(id);
    const { holds, queue } = this.row;
    const present = holds[0] ?? queue[0];
    if (present !== undefined && !agree(present.mode, mode))
      throw new ModeMismatchError(name, mode, present.mode);
    const position = queue.findIndex((waiting) => waiting.id === id);
    const ahead = position < 0 ? queue : queue.slice(0, position);
    if (granted([...holds, ...ahead, request]) > holds.length + ahead.length) {
      const fence = greatest([this.row.fence + 1n, floor + 1n, fenceAbove + 1n, BigInt(nowUs)]);
      const hold = { id, mode, fence: `${fence}`, grantedAtUs: nowUs, expiresAtUs, ttlMs, note };
      this.#change({ fence, holds: [...holds, hold], queue: queue.filter((waiting) => waiting.id !== id) });
      return { granted: true, fence };
    }
    if (position < 0 && request.wait) {
      const size = queue.reduce((sum, each) => sum + each.id.length + each.note.length + WAITER_SIZE, 0);
      if (queue.length >= queueMax || size + note.length > SIZE_MAX) throw new QueueFullError(name, queueMax);
      this.#change({ queue: [...queue, { id, mode, seenAtUs: nowUs, note }] });
    }
    return REFUSED;
  }

  renew({ id }: ClaimRef, { ttlMs, note }: RenewChange): RenewOutcome {
    const held = this.row.holds.find((hold) => hold.id === id);
    // A proxy may have sent the read to a replica that is behind. Then this write fails.
    this.#change({});
    if (held === undefined) return { held: false };
    const expiresAtUs = this.row.nowUs + ttlMs * 1_000;
    this.#replace(held, { ttlMs, expiresAtUs, note: note ?? held.note });
    return { held: true, validForMs: ttlMs };
  }

  release({ id }: ClaimRef): ReleaseAnswer {
    const before = this.row;
    const holds = before.holds.filter((hold) => hold.id !== id);
    const queue = before.queue.filter((waiting) => waiting.id !== id);
    // Also when nothing is found, as in `renew`.
    this.#change({ holds, queue });
    return holds.length + queue.length < before.holds.length + before.queue.length ? 'removed' : 'gone';
  }

  /**
   * Reports that the claims of this store still wait, if its last report is old. `asking`: a claim
   * that asks now, perhaps for a caller that is not woken.
   */
  keep(asking?: string): void {
    const { nowUs, queue } = this.row;
    const isOwn = ({ id }: Queued): boolean => id === asking || this.#isWaiting(id);
    if (!queue.some((each) => each.seenAtUs < nowUs - KEEP_US && isOwn(each))) return;
    this.#change({ queue: queue.map((each) => (isOwn(each) ? { ...each, seenAtUs: nowUs } : each)) });
  }

  /** The waiters that would be granted if they asked now, in order. */
  get next(): readonly Queued[] {
    const { holds, queue } = this.row;
    return queue.slice(0, Math.max(granted([...holds, ...queue]) - holds.length, 0));
  }

  read(): StoredClaim[] {
    const msUntil = (us: number): number => Math.ceil((us - this.row.nowUs) / 1_000);
    const holds = this.row.holds.map(({ id, mode, fence, grantedAtUs, expiresAtUs, note }) => {
      const heldForMs = Math.max(-msUntil(grantedAtUs), 0);
      const expiresInMs = msUntil(expiresAtUs);
      return { id, granted: true, mode, fence: BigInt(fence), heldForMs, expiresInMs, note };
    });
    const queue = this.row.queue.map(({ id, mode, seenAtUs, note }) => {
      const expiresInMs = msUntil(seenAtUs + FORGET_US);
      return { id, granted: false, mode, fence: null, heldForMs: null, expiresInMs, note };
    });
    return [...holds, ...queue];
  }

  #change(change: Partial<LockRow>): void {
    this.row = { ...this.row, ...change, version: this.#version };
  }

  #replace(hold: Hold, by: Partial<Hold>): void {
    this.#change({ holds: this.row.holds.map((each) => (each === hold ? { ...each, ...by } : each)) });
  }

  /**
   * A hold with more time left than its TTL, or a waiter last seen in the future, shows that the
   * server's clock was set back. Without this limit, a dead holder or waiter would stay for the
   * difference. The write makes the limit last.
   */
  #limitToClock(): void {
    const { nowUs, holds, queue } = this.row;
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
   * waiting: it leaves the queue, and all that are as silent with it. While none of them could be
   * granted anyway, they stay, since their store may come back. Every other store finds the same, so
   * that nothing has to be written for it.
   */
  #passOverDead(): void {
    const silentUs = this.row.nowUs - ALIVE_US;
    const isAlive = ({ id, seenAtUs }: Queued): boolean => seenAtUs >= silentUs || this.#isWaiting(id);
    if (!this.next.every(isAlive)) this.row = { ...this.row, queue: this.row.queue.filter(isAlive) };
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
