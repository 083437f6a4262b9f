import { LineFullError, ModeMismatchError } from '../../errors.ts';
import { agree, fits, weightOf } from '../../store/grant-rule.ts';
import type { ClaimRequest, Mode } from '../../store/store.ts';
import { columnsOf, type Holders, modeOf, presentMode, weightHeld } from '../mode-columns.ts';
import type { Unit } from './batch-queue.ts';
import { isGone } from './process-mark.ts';

/** Now, as the rows count it. */
export interface Now {
  readonly boot: number;
  readonly ms: number;
  readonly wallMs: number;
}

export interface Waiter {
  readonly place: number;
  readonly id: string;
  readonly mark: string;
  readonly mode: Mode;
}

interface FrontRow {
  readonly place: number;
  readonly id: string;
  readonly count: number;
  readonly of: number;
  readonly mark: string;
  readonly turn: number;
  readonly live: number;
}

/** How long a waiter whose turn it is may take before those behind it go first. */
const TURN_MS = 5_000;
/** The head asks at least this often, should its wake-up be lost. */
const HEAD_MS = 2_000;
const PAGE = 16;
/** Nobody comes to the front past so many others between two questions. */
const AHEAD_MAX = 256;
/** Those behind ask a little after the head, which then has already taken what ran out. */
const STAGGER_MS = 100;

/** Where a claim stands after the front of the line was looked at. */
interface Standing {
  /** It and everything ahead of it fit. */
  readonly fits: boolean;
  readonly isHead: boolean;
  /** Whose turn it is, ahead of the claim asked about. */
  readonly turns: readonly Waiter[];
}

/** The claims of one lock inside one transaction. */
export class Line {
  readonly #unit: Unit;
  readonly #now: Now;
  readonly #name: string;
  readonly expired: number;
  readonly holders: Holders;

  /** Drops the holds that have run out, and sums up the others. */
  constructor(unit: Unit, now: Now, name: string) {
    this.#unit = unit;
    this.#now = now;
    this.#name = name;
    const { boot, ms, wallMs } = now;
    this.expired = unit.db.run('expireHolds', name, boot, ms, wallMs);
    this.holders = unit.db.all<Holders>('holders', boot, ms, wallMs, name)[0] as Holders;
  }

  /** Walks the line from its front, up to the claim asked about or to the first that does not fit. Removes the places of the dead. */
  stand(own: { id: string; mode: Mode } | null): Standing {
    let weight = weightHeld(this.holders);
    const turns: Waiter[] = [];
    for (const row of this.#front(own?.id ?? null)) {
      const mode = modeOf(row);
      const isOwn = row.id === own?.id;
      if (!fits(weight, mode)) return { fits: false, isHead: isOwn, turns };
      if (isOwn) return { fits: true, isHead: true, turns };
      weight += weightOf(mode);
      turns.push({ place: row.place, id: row.id, mark: row.mark, mode });
    }
    return { fits: own !== null && fits(weight, own.mode), isHead: turns.length === 0, turns };
  }

  /** The waiting claims in order, without those whose time or whose process has ended. */
  *#front(ownId: string | null): Generator<FrontRow, void, undefined> {
    const { boot, ms, wallMs } = this.#now;
    for (let place = 0; ; ) {
      const rows = this.#unit.db.all<FrontRow>('front', boot, ms, wallMs, this.#name, place, PAGE);
      for (const row of rows) {
        place = row.place;
        if (row.id === ownId || (row.live === 1 && !isGone(row.mark))) yield row;
        else this.#unit.db.run('dropPlace', this.#name, row.place);
      }
      if (rows.length < PAGE) return;
    }
  }

  assertAgrees(mode: Mode): void {
    let present = presentMode(this.holders);
    if (present === null) {
      for (const row of this.#front(null)) {
        present = modeOf(row);
        break;
      }
    }
    if (present !== null && !agree(present, mode)) throw new ModeMismatchError(this.#name, mode, present);
  }

  /** Tells whoever can be granted now that it is their turn, and the watchers that something has changed. */
  handOver(turns: readonly Waiter[], tell: (marks: readonly string[], ids: readonly string[]) => void): void {
    for (const { place } of turns) {
      this.#unit.db.run('giveTurn', this.#now.boot, this.#now.ms + TURN_MS, this.#name, place);
    }
    const watchers = this.#unit.db.all<{ mark: string }>('watchers', this.#name);
    if (turns.length + watchers.length === 0) return;
    const marks = [...turns, ...watchers].map(({ mark }) => mark);
    const ids = turns.map(({ id }) => id);
    this.#unit.after(() => tell(marks, ids));
  }

  /** Enters the line, or keeps the place in it. */
  wait(request: ClaimRequest, mark: string, placeMs: number, lineMax: number): number {
    const { boot, ms, wallMs } = this.#now;
    const lifeMs = Math.max(request.ttlMs, placeMs);
    const own = this.placeOf(request.id);
    this.#unit.db.run('markWaited', this.#name);
    if (own !== null) {
      this.#unit.db.run(
        'keepPlace',
        request.ttlMs,
        boot,
        ms + lifeMs,
        wallMs + lifeMs,
        mark,
        this.#name,
        own,
      );
      return own;
    }
    const place = this.#nextPlace(lineMax);
    const { count, of } = columnsOf(request.mode);
    const { id, ttlMs, note } = request;
    this.#unit.db.run(
      'enter',
      this.#name,
      place,
      id,
      count,
      of,
      ttlMs,
      boot,
      ms + lifeMs,
      wallMs + lifeMs,
      note,
      mark,
    );
    return place;
  }

  #nextPlace(lineMax: number): number {
    const { first, last } = this.#bounds();
    // Places are given one after the other, so a line cannot be longer than from its first to its last: counting is rarely needed.
    if (last > 0 && last - first + 1 >= lineMax) {
      const { boot, ms, wallMs } = this.#now;
      this.#unit.db.run('expirePlaces', this.#name, boot, ms, wallMs);
      const waiting = this.#unit.db.all<{ waiting: number }>('countLine', this.#name)[0]?.waiting ?? 0;
      if (waiting >= lineMax) throw new LineFullError(this.#name, lineMax);
    }
    return last + 1;
  }

  #bounds(): { first: number; last: number } {
    const [row] = this.#unit.db.all<{ first: number; last: number }>('bounds', this.#name, this.#name);
    return row ?? { first: 0, last: 0 };
  }

  placeOf(id: string): number | null {
    return this.#unit.db.all<{ place: number }>('ownPlace', id, this.#name)[0]?.place ?? null;
  }

  get isWatched(): boolean {
    return this.#unit.db.all('watchers', this.#name).length > 0;
  }

  get hasWaiters(): boolean {
    return this.#bounds().last > 0;
  }

  /**
   * When to ask again if nothing wakes us. The holder may be killed, and so may any of those ahead once it has been granted: whoever comes to the front
   * unnoticed must still ask soon after a lease that it never saw has ended.
   */
  retryAfterMs(place: number | null, isHead: boolean, mostMs: number): number {
    const left = Math.max(this.holders.left ?? HEAD_MS, 1);
    if (isHead) return Math.min(left, HEAD_MS, mostMs);
    const ahead =
      place === null
        ? []
        : this.#unit.db.all<{ ttl: number | null }>('shortestAhead', this.#name, place, AHEAD_MAX);
    const shortest = ahead[0]?.ttl ?? mostMs;
    return Math.min(left + STAGGER_MS, shortest + STAGGER_MS, mostMs);
  }
}
