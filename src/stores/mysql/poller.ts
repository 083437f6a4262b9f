import type { Clock, Timer } from '../../clock.ts';
import type { SubscriptionEvents } from '../shared/server-queue-store.ts';
import type { ConnectionEvents, SubscribedConnection } from '../shared/subscription.ts';
import type { LocalWaiters } from './local-waiters.ts';
import type { LockRow, RowReading } from './lock-row.ts';
import { RowQueue } from './row-queue.ts';

/** A lock with a waiter or an observer in this store. */
interface Watched {
  /** As it was last read. */
  row: LockRow | null;
  dueAtMs: number;
  /** When the queue was last seen to move. */
  movedAtMs: number;
  /** How long the last two holders have had the lock; 0: unknown. */
  turnsMs: readonly [number, number];
  /**
   * The version of the row for which each waiter was last woken: one wake-up for a version is
   * enough.
   */
  woken: ReadonlyMap<string, string | null>;
}

export interface PollerOptions {
  readonly clock: Clock;
  readonly waiters: LocalWaiters;
  readonly events: () => SubscriptionEvents | null;
  /** Reads these locks. The claims of a row are left out where its version is the known one. */
  read(known: readonly KnownRow[]): Promise<readonly RowReading[]>;
  /** Reports to the server that the waiters of this store are alive. */
  keep(name: string): void;
}

/** A lock to be read, and the version of it that is known. */
export type KnownRow = readonly [name: string, version: string | null];

/**
 * The poll interval of a lock: for the store whose waiter is next, for the store behind it, and for
 * all others. `bench/mysql/waiting.ts` measures what these polls cost.
 */
const LOOK_MS = [38, 250, 750] as const;
/** A queue that has moved within this time may move again soon, so stores poll more often. */
const MOVING_MS = 300;
const MOVING_LOOK_MS = 20;
/** The shares of a turn after which the store that is next polls, and each store behind it for each turn. */
const NEXT_SHARE = 0.1;
const BEHIND_SHARE = 0.4;
const OBSERVE_MS = 400;
/** Polls that are due within this time share a batch. */
const TOGETHER_MS = 15;

/**
 * Finds grants and changes where the server cannot push: polls all locks with a waiter or an
 * observer in this store, in one batch.
 */
export class Poller {
  readonly #options: PollerOptions;
  readonly #watched = new Map<string, Watched>();
  readonly #observed = new Set<string>();
  #timer: Timer | null = null;
  #dueAtMs = Number.POSITIVE_INFINITY;
  #connection: ConnectionEvents<never> | null = null;
  #isUp = false;

  constructor(options: PollerOptions) {
    this.#options = options;
  }

  /** For `Subscription`: it is up once the server has answered, and ends when that fails. */
  open(connection: ConnectionEvents<never>): SubscribedConnection {
    this.#connection = connection;
    this.#isUp = false;
    void this.#look();
    const close = (): void => {
      if (this.#connection === connection) this.#connection = null;
    };
    return { close };
  }

  /** Resolves when every later change will be noticed, or rejects when the server does not answer. */
  async observe(name: string, isObserved: boolean): Promise<void> {
    if (!isObserved) this.#observed.delete(name);
    else {
      this.#observed.add(name);
      await this.#read([[name, null]]);
    }
  }

  /** An operation has read or changed the lock. */
  onLook(queue: RowQueue): void {
    const { name } = queue;
    if (this.#options.waiters.has(name) || this.#observed.has(name))
      this.#see(queue, this.#watched.get(name)?.row ?? null);
  }

  close(): void {
    this.#timer?.cancel();
    this.#connection = null;
    this.#watched.clear();
    this.#observed.clear();
  }

  async #look(): Promise<void> {
    const connection = this.#connection;
    this.#timer?.cancel();
    this.#dueAtMs = Number.POSITIVE_INFINITY;
    if (connection === null) return;
    try {
      await this.#read(this.#takeDue());
      if (this.#connection !== connection) return;
      if (!this.#isUp) connection.onUp();
      this.#isUp = true;
      this.#schedule(Math.min(...[...this.#watched.values()].map(({ dueAtMs }) => dueAtMs)));
    } catch {
      if (this.#connection !== connection) return;
      this.#connection = null;
      connection.onEnd();
    }
  }

  async #read(known: readonly KnownRow[]): Promise<void> {
    const versions = new Map(known);
    for (const reading of await this.#options.read(known)) {
      const { name, version } = reading.row;
      const before = this.#watched.get(name)?.row ?? null;
      const isLeftOut = version !== null && version === versions.get(name);
      // An operation has read or changed the lock meanwhile, so this reading is out of date.
      if (isLeftOut && before?.version !== version) this.#plan(name, LOOK_MS[0]);
      else
        this.#see(
          new RowQueue(
            { ...reading, row: isLeftOut && before ? before : reading.row },
            this.#options.waiters,
          ),
          before,
        );
    }
  }

  /** The locks to be read now. Locks with neither a waiter nor an observer are forgotten. */
  #takeDue(): KnownRow[] {
    const { clock, waiters } = this.#options;
    const beforeMs = clock.monotonicMs() + TOGETHER_MS;
    waiters.dropOld();
    for (const name of this.#watched.keys())
      if (!waiters.has(name) && !this.#observed.has(name)) this.#watched.delete(name);
    for (const name of [...waiters.names, ...this.#observed]) this.#watch(name);
    const due = [...this.#watched].filter(([, { dueAtMs }]) => dueAtMs <= beforeMs);
    for (const [, watched] of due) watched.dueAtMs = beforeMs + Math.max(...LOOK_MS);
    return due.map(([name, { row }]) => [name, row?.version ?? null] as const);
  }

  #watch(name: string): Watched {
    const known = this.#watched.get(name);
    if (known !== undefined) return known;
    const watched: Watched = {
      ...{ row: null, dueAtMs: 0, movedAtMs: Number.NEGATIVE_INFINITY, turnsMs: [0, 0], woken: new Map() },
    };
    this.#watched.set(name, watched);
    return watched;
  }

  /** `queue`: the lock as it is now. `before`: its row as it was last read. */
  #see(queue: RowQueue, before: LockRow | null): void {
    const { clock, waiters, events, keep } = this.#options;
    const { name } = queue;
    const watched = this.#watch(name);
    const { row } = queue;
    watched.row = row;
    if (before !== null && before.version !== row.version) {
      if (before.holds[0]?.id !== row.holds[0]?.id || before.queue[0]?.id !== row.queue[0]?.id)
        watched.movedAtMs = clock.monotonicMs();
      const turnMs = turnMsOf(before, row);
      if (turnMs !== null) watched.turnsMs = [watched.turnsMs[1], turnMs];
      if (this.#observed.has(name)) events()?.onChanged(name, true);
      const woken = hasNewNote(before, row)
        ? waiters.idsOf(name)
        : waiters.idsOf(name).filter((id) => hasLostPosition(id, before, row));
      for (const id of woken) events()?.onGranted(name, id, null);
    }
    this.#wake(watched, queue);
    if (queue.isToBeKept) keep(name);
    this.#plan(name, this.#lookMs(queue, watched));
  }

  /** The waiters of this store that would be granted if they asked now. */
  #wake(watched: Watched, { name, next, version }: RowQueue): void {
    const { waiters, events } = this.#options;
    const own = next.filter(({ tag }) => tag === waiters.tag);
    const before = watched.woken;
    watched.woken = new Map(own.map(({ id }) => [id, version]));
    for (const { id } of own) if (before.get(id) !== version) events()?.onGranted(name, id, null);
  }

  #lookMs({ row, storesAhead }: RowQueue, { movedAtMs, turnsMs }: Watched): number {
    const { clock, waiters } = this.#options;
    if (storesAhead === null) return OBSERVE_MS;
    const restMs = LOOK_MS[Math.min(storesAhead, LOOK_MS.length - 1)] ?? LOOK_MS[0];
    if (clock.monotonicMs() - movedAtMs >= MOVING_MS) return restMs;
    const position = row.queue.findIndex(({ tag }) => tag === waiters.tag);
    const turns = position === 0 ? NEXT_SHARE : position * BEHIND_SHARE;
    // The shorter of two: after one long turn, short ones may follow.
    return Math.min(Math.max(turns * Math.min(...turnsMs), MOVING_LOOK_MS), restMs);
  }

  #plan(name: string, ms: number): void {
    const dueAtMs = this.#options.clock.monotonicMs() + ms;
    this.#watch(name).dueAtMs = dueAtMs;
    this.#schedule(dueAtMs);
  }

  #schedule(dueAtMs: number): void {
    if (dueAtMs >= this.#dueAtMs) return;
    this.#timer?.cancel();
    this.#dueAtMs = dueAtMs;
    const delayMs = Math.max(dueAtMs - this.#options.clock.monotonicMs(), 1);
    this.#timer = this.#options.clock.startTimer(delayMs, () => void this.#look());
  }
}

/**
 * While this process stood still, another one has removed the claim from the queue. Its waiter has to
 * ask, to be in the queue again.
 */
function hasLostPosition(id: string, before: LockRow, after: LockRow): boolean {
  const isId = (claim: { readonly id: string }): boolean => claim.id === id;
  return before.queue.some(isId) && !after.queue.some(isId) && !after.holds.some(isId);
}

/** How long each holder between two readings has had the lock. `null`: the lock has not changed hands. */
function turnMsOf(before: LockRow, after: LockRow): number | null {
  const [last, hold] = [before.holds[0], after.holds[0]];
  if (last === undefined || hold === undefined || last.id === hold.id) return null;
  const turns = before.queue.findIndex(({ id }) => id === hold.id) + 1;
  return (hold.grantedAtUs - last.grantedAtUs) / 1_000 / Math.max(turns, 1);
}

function hasNewNote(before: LockRow, after: LockRow): boolean {
  return after.holds.some(({ id, note }) => {
    const known = before.holds.find((hold) => hold.id === id);
    return known !== undefined && known.note !== note;
  });
}
