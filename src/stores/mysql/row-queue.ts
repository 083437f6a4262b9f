import { ModeMismatchError, QueueFullError } from '../../errors.ts';
import { agree, fits, weightOf } from '../../store/grant-rule.ts';
import type { ClaimRef, ClaimRequest, RenewChange, RenewOutcome, StoredClaim } from '../../store/store.ts';
import type { ClaimAnswer, ReleaseAnswer } from '../shared/server-queue-store.ts';
import type { Hold, LockRow, Queued, RowReading } from './lock-row.ts';

/** The claims that wait in this store. */
export interface OwnWaiters {
  readonly tag: string;
  isWaiting(claim: ClaimRef): boolean;
}

/** For a row that is only read. */
export const NOBODY: OwnWaiters = { tag: '', isWaiting: () => false };

/**
 * A store that has not reported for this long that it is alive loses its turn: see `#passOverDead`.
 */
const ALIVE_US = 5_000_000;
/** How often a store reports that it is alive. */
export const KEEP_US = 2_500_000;
/** A waiter of a store that was silent for this long is removed. */
const FORGET_US = 60_000_000;
/**
 * A queue also counts as full when its text is this long: servers limit the length of a statement.
 */
const SIZE_MAX = 4_000_000;

const byFence = (a: Hold, b: Hold): number => (a.fence < b.fence ? -1 : 1);

/**
 * The claims of one lock as they were read, and what an operation makes of them. `grant-rule.ts`
 * says which are granted. A grant counts only once the row is written. The write fails if the row
 * has changed since it was read.
 */
export class RowQueue {
  readonly #row: LockRow;
  readonly #nowUs: number;
  /** Every new fence is above this. */
  readonly floor: bigint;
  readonly #own: OwnWaiters;
  /** Of the row that was read, or that was written since then. */
  version: string | null;
  #fence: bigint;
  #holds: Hold[];
  #queue: Queued[];
  /** Whether the row must be written. */
  isChanged = false;

  constructor({ row, nowUs, floor }: RowReading, own: OwnWaiters) {
    this.#row = row;
    this.#nowUs = nowUs;
    this.floor = floor;
    this.#own = own;
    this.version = row.version;
    this.#fence = row.fence;
    this.#holds = row.holds.filter(({ expiresAtUs }) => expiresAtUs > nowUs);
    this.#queue = row.queue.filter(({ seenAtUs }) => seenAtUs > nowUs - FORGET_US);
    this.#limitToClock();
    this.#passOverDead();
  }

  /** The row as it is to be written. */
  get row(): LockRow {
    const { version } = this;
    return { ...this.#row, version, fence: this.#fence, holds: this.#holds, queue: this.#queue };
  }

  /** The server's time when the row was read. */
  get nowUs(): number {
    return this.#nowUs;
  }

  get name(): string {
    return this.#row.name;
  }

  get isNew(): boolean {
    return this.#row.version === null;
  }

  claim(request: ClaimRequest, queueMax: number): ClaimAnswer {
    const { id, mode, ttlMs, note, fenceAbove } = request;
    const { nowUs, floor } = this;
    const expiresAtUs = nowUs + ttlMs * 1_000;
    const held = this.#holds.find((hold) => hold.id === id);
    if (held !== undefined) {
      this.#replace(held, { ...held, ttlMs, expiresAtUs });
      return { granted: true, fence: held.fence };
    }
    this.keep();
    const present = this.#holds[0] ?? this.#queue[0];
    if (present !== undefined && !agree(present.mode, mode))
      throw new ModeMismatchError(request.name, mode, present.mode);
    const position = this.#queue.findIndex((waiting) => waiting.id === id);
    const ahead = position < 0 ? this.#queue : this.#queue.slice(0, position);
    if (fits(this.#weight + weightSum(ahead), mode)) {
      const fence = greatest([this.#fence + 1n, floor + 1n, fenceAbove + 1n, BigInt(nowUs)]);
      this.#fence = fence;
      this.#queue = this.#queue.filter((waiting) => waiting.id !== id);
      this.#holds = [...this.#holds, { id, mode, fence, grantedAtUs: nowUs, expiresAtUs, ttlMs, note }];
      this.isChanged = true;
      return { granted: true, fence };
    }
    if (position < 0 && request.wait) {
      const isFull = this.#queue.length >= queueMax || this.#row.size + note.length > SIZE_MAX;
      if (isFull) throw new QueueFullError(request.name, queueMax);
      this.#queue = [...this.#queue, { id, mode, tag: this.#own.tag, seenAtUs: nowUs, note }];
      this.isChanged = true;
    }
    return {
      granted: false,
      endsInMs: this.endsInMs,
      isHead: ahead.length === 0,
      isForeign: false,
      serverTime: null,
    };
  }

  renew({ id }: ClaimRef, { ttlMs, note }: RenewChange): RenewOutcome {
    const held = this.#holds.find((hold) => hold.id === id);
    if (held === undefined) {
      this.#confirm();
      return { held: false };
    }
    const expiresAtUs = this.#nowUs + ttlMs * 1_000;
    this.#replace(held, { ...held, ttlMs, expiresAtUs, note: note ?? held.note });
    return { held: true, validForMs: ttlMs };
  }

  release({ id }: ClaimRef): ReleaseAnswer {
    const before = this.#holds.length + this.#queue.length;
    this.#holds = this.#holds.filter((hold) => hold.id !== id);
    this.#queue = this.#queue.filter((waiting) => waiting.id !== id);
    const isFound = this.#holds.length + this.#queue.length < before;
    this.#confirm();
    return isFound ? 'removed' : 'gone';
  }

  /**
   * Reports that this store is alive, if its last report is old. Removes the claims of this store
   * that no caller waits for.
   */
  keep(): void {
    const nowUs = this.#nowUs;
    const isOwn = ({ tag }: Queued): boolean => tag === this.#own.tag;
    if (!this.#queue.some((each) => isOwn(each) && each.seenAtUs < nowUs - KEEP_US)) return;
    this.#queue = this.#queue
      .filter((each) => !isOwn(each) || this.#own.isWaiting({ name: this.name, id: each.id }))
      .map((each) => (isOwn(each) ? { ...each, seenAtUs: nowUs } : each));
    this.isChanged = true;
  }

  /** Whether `keep` has something to do. */
  get isToBeKept(): boolean {
    const { tag } = this.#own;
    return this.#queue.some((each) => each.tag === tag && each.seenAtUs < this.#nowUs - KEEP_US);
  }

  /** The waiters that would be granted if they asked now, in order. */
  get next(): readonly Queued[] {
    let weight = this.#weight;
    const next: Queued[] = [];
    for (const waiting of this.#queue) {
      if (!fits(weight, waiting.mode)) break;
      weight += weightOf(waiting.mode);
      next.push(waiting);
    }
    return next;
  }

  /** How many other stores have a waiter before the first one of this store; `null`: it has none. */
  get storesAhead(): number | null {
    const { tag } = this.#own;
    const first = this.#queue.findIndex((waiting) => waiting.tag === tag);
    return first < 0 ? null : new Set(this.#queue.slice(0, first).map((waiting) => waiting.tag)).size;
  }

  /** When the first hold expires, or a store that has its turn loses it. */
  get endsInMs(): number {
    const nowUs = this.#nowUs;
    const turnsUs = this.next.map(({ seenAtUs }) => seenAtUs + ALIVE_US);
    const endsUs = Math.min(...this.#holds.map(({ expiresAtUs }) => expiresAtUs), ...turnsUs);
    return Math.max((endsUs - nowUs) / 1_000, 1);
  }

  read(): StoredClaim[] {
    const nowUs = this.#nowUs;
    const holds = [...this.#holds]
      .sort(byFence)
      .map(({ id, mode, fence, grantedAtUs, expiresAtUs, note }) => ({
        id,
        granted: true,
        mode,
        fence,
        heldForMs: Math.max(Math.round((nowUs - grantedAtUs) / 1_000), 0),
        expiresInMs: Math.ceil((expiresAtUs - nowUs) / 1_000),
        note,
      }));
    const queue = this.#queue.map(({ id, mode, seenAtUs, note }) => ({
      id,
      granted: false,
      mode,
      fence: null,
      heldForMs: null,
      expiresInMs: Math.ceil((seenAtUs + FORGET_US - nowUs) / 1_000),
      note,
    }));
    return [...holds, ...queue];
  }

  get #weight(): number {
    return weightSum(this.#holds);
  }

  /**
   * A proxy may have sent the read to a replica that is behind. A write fails then, because the row has
   * another version.
   */
  #confirm(): void {
    this.isChanged = true;
  }

  #replace(hold: Hold, by: Hold): void {
    this.#holds = this.#holds.map((each) => (each === hold ? by : each));
    this.isChanged = true;
  }

  /**
   * A hold with more time left than its TTL, or a store last seen in the future, shows that the
   * server's clock was set back. Without this limit, a dead holder or store would stay for the
   * difference.
   */
  #limitToClock(): void {
    const nowUs = this.#nowUs;
    for (const hold of this.#holds) {
      const latestUs = nowUs + hold.ttlMs * 1_000;
      if (hold.expiresAtUs > latestUs) this.#replace(hold, { ...hold, expiresAtUs: latestUs });
    }
    if (!this.#queue.some(({ seenAtUs }) => seenAtUs > nowUs)) return;
    this.#queue = this.#queue.map((each) => ({ ...each, seenAtUs: Math.min(each.seenAtUs, nowUs) }));
    this.isChanged = true;
  }

  /**
   * A waiter that could be granted, but whose store is dead or stopped, must not keep the others
   * waiting: the silent waiters of that store leave the queue. If none of them could be granted
   * anyway, they stay, since the store may come back.
   */
  #passOverDead(): void {
    const silentUs = this.#nowUs - ALIVE_US;
    const isDead = ({ tag, seenAtUs }: Queued): boolean => seenAtUs < silentUs && tag !== this.#own.tag;
    for (let dead = this.next.find(isDead); dead !== undefined; dead = this.next.find(isDead)) {
      const { tag } = dead;
      this.#queue = this.#queue.filter((each) => each.tag !== tag || !isDead(each));
      this.isChanged = true;
    }
  }
}

function weightSum(claims: readonly (Hold | Queued)[]): number {
  return claims.reduce((sum, { mode }) => sum + weightOf(mode), 0);
}

export function greatest(fences: readonly bigint[]): bigint {
  let most = 0n;
  for (const fence of fences) if (fence > most) most = fence;
  return most;
}
