import { ModeMismatchError, QueueFullError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import { agree, fits, weightOf } from '../../store/grant-rule.ts';
import type { ClaimRequest, Mode } from '../../store/store.ts';
import type { Holders, ModeColumns } from '../shared/mode-columns.ts';
import { columnsOf, modeOf, presentMode, weightHeld } from '../shared/mode-columns.ts';
import type { Connection } from './connection.ts';
import { endOf, type Now } from './host-clock.ts';
import { isGone } from './process-tag.ts';

interface QueueRow extends ModeColumns {
  readonly position: number;
  readonly id: string;
  readonly tag: string;
  readonly turn: number;
  /** Milliseconds until the row expires. */
  readonly left: number;
}

/** Where a claim stands in the queue. */
export interface Standing {
  /** It and everything ahead of it fit the capacity. */
  readonly fits: boolean;
  /** Only claims that can be granted are ahead of it. */
  readonly isHead: boolean;
  /** The claims ahead of it that can be granted. */
  readonly turns: readonly QueueRow[];
}

/** How long a waiter may take to ask for what it can be granted, before its position is lost. */
const TURN_MS = 5_000;
/** The head asks at least this often, in case its wake-up is lost. */
const HEAD_MS = 2_000;
/** So does the first waiter of each process: less than a turn, so that it sees when a turn ends. */
export const FIRST_MS = 4_500;
/** The others ask a little later than the head, which then has already taken what expired. */
const STAGGER_MS = 100;
const PAGE = 16;
/** No claim advances by more than this between two attempts. */
const AHEAD_MAX = 256;

/** The claims of one lock, inside one transaction. */
export class LockQueue {
  readonly #db: Connection;
  readonly #now: Now;
  readonly #name: string;
  readonly #tag: string;
  readonly #holders: Holders;
  #removed: number;

  /** Removes the holds that have expired. `tag`: of this process. */
  constructor(db: Connection, now: Now, name: string, tag: string) {
    this.#db = db;
    this.#now = now;
    this.#name = name;
    this.#tag = tag;
    this.#removed = db.run('expireHolds', name, ...now);
    this.#holders = db.all<Holders>('holders', ...now, name)[0] as Holders;
  }

  /** Whether a hold or a waiter was removed, so that another claim may fit now. */
  get hasRemoved(): boolean {
    return this.#removed > 0;
  }

  get hasWaiters(): boolean {
    return this.#bounds().last > 0;
  }

  /** The tags of the processes that observe this lock. */
  get watchers(): readonly string[] {
    return this.#db.all<{ tag: string }>('watchers', this.#name).map(({ tag }) => tag);
  }

  heldFence(id: string): bigint | null {
    const held = this.#db.all<{ fence: string }>('ownHold', this.#name, id)[0];
    return held === undefined ? null : BigInt(held.fence);
  }

  positionOf(id: string): number | null {
    return this.#db.all<{ position: number }>('ownPosition', id, this.#name)[0]?.position ?? null;
  }

  assertCompatible(mode: Mode): void {
    let present = presentMode(this.#holders);
    if (present === null) {
      const [first] = this.#waiting(null);
      if (first !== undefined) present = modeOf(first);
    }
    if (present !== null && !agree(present, mode)) throw new ModeMismatchError(this.#name, mode, present);
  }

  /** Walks the queue from its front, up to the claim asked about or to the first that does not fit. */
  standing(own: { readonly id: string; readonly mode: Mode } | null): Standing {
    let weight = weightHeld(this.#holders);
    const turns: QueueRow[] = [];
    for (const row of this.#waiting(own?.id ?? null)) {
      const mode = modeOf(row);
      const isOwn = row.id === own?.id;
      if (!fits(weight, mode)) return { fits: false, isHead: isOwn, turns };
      if (isOwn) return { fits: true, isHead: true, turns };
      weight += weightOf(mode);
      turns.push(row);
    }
    return { fits: own !== null && fits(weight, own.mode), isHead: turns.length === 0, turns };
  }

  /** The waiting claims in order. Removes those that have expired or whose process has ended. */
  *#waiting(ownId: string | null): Generator<QueueRow, void, undefined> {
    const stopped = new Set<string>();
    for (let position = 0; ; ) {
      const rows = this.#db.all<QueueRow>('queueAfter', ...this.#now, this.#name, position, PAGE);
      for (const row of rows) {
        position = row.position;
        if (row.id === ownId || (row.left > 0 && !stopped.has(row.tag) && !isGone(row.tag))) yield row;
        else if (this.#remove(row) === 'process') stopped.add(row.tag);
      }
      if (rows.length < PAGE) return;
    }
  }

  /** A process that let a turn expire is stopped. Each further claim of it would cost another turn. */
  #remove({ id, tag, turn, left }: QueueRow): 'process' | 'claim' {
    this.#removed += 1;
    const isStopped = turn === 1 && left <= 0 && tag !== this.#tag;
    if (isStopped) this.#db.run('removeProcess', this.#name, tag);
    else this.#db.run('removeWaiting', this.#name, id);
    return isStopped ? 'process' : 'claim';
  }

  giveTurns(turns: readonly QueueRow[]): void {
    const end = endOf(this.#now, TURN_MS);
    for (const { position } of turns) this.#db.run('giveTurn', ...end, this.#name, position);
  }

  /** Enters the queue, or keeps the position in it. */
  wait(request: ClaimRequest, position: number | null, queueMax: number): number {
    const { id, mode, ttlMs, note } = request;
    const end = endOf(this.#now, DEFAULTS.queuePositionMs);
    this.#db.run('markWaited', this.#name);
    if (position !== null) {
      this.#db.run('keepPosition', ttlMs, ...end, this.#tag, this.#name, position);
      return position;
    }
    const last = this.#nextPosition(queueMax);
    const { count, of } = columnsOf(mode);
    this.#db.run('enqueue', this.#name, last, id, count, of, ttlMs, ...end, note, this.#tag);
    return last;
  }

  #nextPosition(queueMax: number): number {
    const { first, last } = this.#bounds();
    // Positions are consecutive, so they bound the length of the queue: counting is rarely needed.
    if (last > 0 && last - first + 1 >= queueMax) {
      this.#db.run('expireWaiting', this.#name, ...this.#now);
      const waiting = this.#db.all<{ waiting: number }>('countWaiting', this.#name)[0]?.waiting ?? 0;
      if (waiting >= queueMax) throw new QueueFullError(this.#name, queueMax);
    }
    return last + 1;
  }

  #bounds(): { first: number; last: number } {
    const [row] = this.#db.all<{ first: number; last: number }>('bounds', this.#name, this.#name);
    return row ?? { first: 0, last: 0 };
  }

  /**
   * When to ask again if nothing wakes the waiter. No server notices when a process dies, so a waiter
   * also asks soon after the shortest lease that a claim ahead of it may have got unseen.
   */
  retryAfterMs(position: number | null, { isHead, turns }: Standing, mostMs: number): number {
    const holdMs = Math.max(this.#holders.left ?? HEAD_MS, 1);
    const turnMs = turns.length > 0 ? Math.min(TURN_MS, ...turns.map(({ left }) => left)) : mostMs;
    const headMs = Math.min(turnMs + STAGGER_MS, mostMs);
    if (isHead) return Math.min(holdMs, HEAD_MS, headMs);
    const ahead = position === null ? undefined : this.#ahead(position);
    const pollMs = ahead !== undefined && ahead.own !== 1 ? FIRST_MS : mostMs;
    return Math.min(Math.min(holdMs, ahead?.ttl ?? mostMs) + STAGGER_MS, pollMs, headMs);
  }

  #ahead(position: number): { ttl: number | null; own: number | null } | undefined {
    const values = [this.#tag, this.#name, position, AHEAD_MAX] as const;
    return this.#db.all<{ ttl: number | null; own: number | null }>('ahead', ...values)[0];
  }
}
