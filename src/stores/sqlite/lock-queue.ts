import { ModeMismatchError, QueueFullError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import { agree, fits, weightOf } from '../../store/grant-rule.ts';
import type { ClaimRequest, Mode } from '../../store/store.ts';
import { columnsOf, type ModeColumns, modeOf } from '../shared/mode-columns.ts';
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

/** The holders together, and one mode that is compatible with all of them. */
interface Holders extends ModeColumns {
  /** 0 when there are none. */
  readonly weight: number;
  /** Milliseconds until the first hold ends. */
  readonly left: number | null;
}

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
/**
 * The first waiter of each process asks at least this often: less than a turn, so that it sees when
 * a turn ends.
 */
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
  /** A hold or a waiter was removed, so that another claim may fit now. */
  hasRemoved: boolean;

  /** Removes the holds that have expired. `tag`: of this process. */
  constructor(db: Connection, name: string, tag: string, now: Now = db.now()) {
    this.#db = db;
    this.#now = now;
    this.#name = name;
    this.#tag = tag;
    this.hasRemoved = db.run('expireHolds', name, ...now) > 0;
    this.#holders = db.all<Holders>('holders', ...now, name)[0] as Holders;
  }

  assertCompatible({ id, mode }: ClaimRequest): void {
    const [first] = this.#holders.weight > 0 ? [this.#holders] : this.#waiting(id);
    if (first === undefined || agree(modeOf(first), mode)) return;
    throw new ModeMismatchError(this.#name, mode, modeOf(first));
  }

  /** Walks the queue from its front, up to the claim asked about or to the first that does not fit. */
  standing(own: { readonly id: string; readonly mode: Mode } | null): Standing {
    let { weight } = this.#holders;
    const turns: QueueRow[] = [];
    for (const row of this.#waiting(own?.id)) {
      const mode = modeOf(row);
      const isOwn = row.id === own?.id;
      const isFitting = fits(weight, mode);
      if (isOwn || !isFitting) return { fits: isOwn && isFitting, isHead: isOwn, turns };
      weight += weightOf(mode);
      turns.push(row);
    }
    return { fits: own !== null && fits(weight, own.mode), isHead: turns.length === 0, turns };
  }

  /** The waiting claims in order. Removes those that have expired or whose process has ended. */
  *#waiting(ownId: string | undefined): Generator<QueueRow, void, undefined> {
    let position = 0;
    const page = () => this.#db.all<QueueRow>('queueAfter', ...this.#now, this.#name, position, PAGE);
    for (let rows = page(); rows.length > 0; rows = page()) {
      for (const row of rows) {
        position = row.position;
        // Others of the page may be removed with it.
        if (row.id !== ownId && this.#removeDead(row)) break;
        yield row;
      }
    }
  }

  /** Whether this claim, or all claims of its process, were removed. */
  #removeDead({ id, tag, turn, left }: QueueRow): boolean {
    const isDead = tag !== this.#tag && isGone(tag);
    if (left > 0 && !isDead) return false;
    this.hasRemoved = true;
    // A process that let a turn expire is stopped. Each further claim of it would cost another turn.
    const isStopped = turn === 1 && tag !== this.#tag;
    if (isDead || isStopped) this.#db.run('removeProcess', this.#name, tag);
    else this.#db.run('removeWaiting', this.#name, id);
    return true;
  }

  /** The claims that can be granted now. Their waiters have until the end of their turns to ask. */
  giveTurns(): readonly QueueRow[] {
    const { turns } = this.standing(null);
    const end = endOf(this.#now, TURN_MS);
    for (const { position } of turns) this.#db.run('giveTurn', ...end, this.#name, position);
    return turns;
  }

  /** Keeps the position of a claim. Returns whether it has one. */
  keep({ id, ttlMs }: ClaimRequest): boolean {
    const end = endOf(this.#now, DEFAULTS.queuePositionMs);
    return this.#db.run('keepPosition', ttlMs, ...end, this.#tag, id, this.#name) === 1;
  }

  enqueue({ id, mode, ttlMs, note }: ClaimRequest, queueMax: number): void {
    const name = this.#name;
    const [row] = this.#db.all<{ waiting: number }>('waiting', name, name, queueMax, name, ...this.#now);
    if (row !== undefined && row.waiting >= queueMax) throw new QueueFullError(name, queueMax);
    this.#db.run('markWaited', name);
    const { count, of } = columnsOf(mode);
    const end = endOf(this.#now, DEFAULTS.queuePositionMs);
    this.#db.run('enqueue', name, name, id, count, of, ttlMs, ...end, note, this.#tag);
  }

  /**
   * When to ask again if nothing wakes the waiter. No server notices when a process dies, so a waiter
   * also asks soon after the shortest lease that a claim ahead of it may have got unseen.
   */
  retryAfterMs(id: string, { isHead, turns }: Standing, mostMs: number): number {
    const ends = [this.#holders.left ?? HEAD_MS, ...turns.map(({ left }) => Math.min(left, TURN_MS))];
    const endMs = Math.max(Math.min(...ends), 1);
    if (isHead) return Math.min(endMs, HEAD_MS, mostMs);
    const values = [this.#tag, this.#name, id, this.#name, AHEAD_MAX] as const;
    const [ahead] = this.#db.all<{ ttl: number | null; own: number | null }>('ahead', ...values);
    const pollMs = ahead?.own === 1 ? mostMs : FIRST_MS;
    return Math.min(Math.min(endMs, ahead?.ttl ?? endMs) + STAGGER_MS, pollMs, mostMs);
  }
}
