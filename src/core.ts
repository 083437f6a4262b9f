import { type ClaimIds, claimIds, defaultOwner } from './claim-id.ts';
import type { Clock } from './clock.ts';
import { systemClock } from './clock.ts';
import { ClosedError } from './errors.ts';
import { type EventDetail, Events, type LockEvents } from './events.ts';
import type { AcquireObserver } from './hold/acquire-trace.ts';
import { CleanUp } from './hold/clean-up.ts';
import type { HeldClaim } from './hold/held-claim.ts';
import { ProcessRef } from './hold/process-ref.ts';
import { Renewals, type Renewer } from './hold/renewals.ts';
import type { Wait } from './hold/wait.ts';
import { DEFAULTS, type LocksOptions, resolveLocksOptions, type Settings } from './options.ts';
import { firstAnswer } from './store/first-answer.ts';
import type { ClaimRef, Store, StoredClaim } from './store/store.ts';
import { usedName } from './use.ts';
import { pause, settlesWithin } from './util/backoff.ts';
import { Commands } from './util/command.ts';
import { isStoreError } from './util/error-code.ts';
import { Turns } from './util/turns.ts';

/**
 * A candidate or another long-lived user of holds: `close` asks it to end before it waits for the
 * holds.
 */
export interface Stoppable {
  /** The election or the schedule that it serves, for people. */
  readonly serves?: Served | undefined;
  stop(options: { readonly drainMs: number }): Promise<void>;
}

/** An election in which this process stands, or a schedule of this process. */
export interface Served {
  readonly kind: 'election' | 'schedule';
  readonly name: string;
  /** The next slot of a schedule. */
  readonly next?: Date | null;
}

/** Shared by all Locks of this process that use one store. */
interface StoreRecord {
  users: number;
  /**
   * The greatest fence seen from this store: no later grant may be below it, even if the store lost
   * its data.
   */
  fenceSeen: bigint;
}

/** How long the store may take to disconnect, once nothing is left to release. */
const CLOSE_MS = 950;

/**
 * What is left of `commandMs` after connecting has failed: time limits are rounded up, and the
 * sockets have to be closed.
 */
const DISCONNECT_MS = 400;

/** How long a read waits for the one ahead of it. Some of `explainMs` must be left for its own answer. */
const READ_AHEAD_MS = DEFAULTS.explainMs / 2;

/** The pause between two tries to connect. */
const CONNECT_PAUSE_MS = 250;
/** A shorter try would fail for lack of time, and its error would hide the real one. */
const CONNECT_TRY_MS = 1_000;

export type MakeRenewer = (core: Core) => Renewer;

const RECORDS = new WeakMap<Store, StoreRecord>();

/** Shared by the parts of one Locks. */
export class Core {
  readonly store: Store;
  readonly clock: Clock;
  readonly owner: string;
  readonly ids: ClaimIds;
  readonly settings: Settings;
  readonly events = new Events();
  readonly commands: Commands;
  /** Claims apart from other commands: `close` abandons those that are pending. */
  readonly claimCommands: Commands;
  readonly renewals: Renewer;
  readonly cleanUp: CleanUp;
  readonly processRef: ProcessRef;
  /** Those that `close` has to stop. */
  readonly waits = new Set<Wait>();
  readonly stoppables = new Set<Stoppable>();
  readonly record: StoreRecord;
  /** Replaced as a whole when an observer is added or removed. */
  acquireObservers: readonly AcquireObserver[] = [];
  /** Whether the calling code runs inside the hold of this claim; set where that is tracked. */
  isCallerInside: (id: string) => boolean = () => false;
  isClosed = false;
  readonly #endEvictions: (() => void) | undefined;
  /** One read of a lock at a time. */
  readonly #reads = new Turns();
  /** By lock: the read that waits for its turn. */
  readonly #nextReads = new Map<string, Promise<readonly StoredClaim[]>>();
  #working = 0;
  #onEnd: (() => void) | null = null;

  /** `makeRenewer`: what keeps the holds alive, unless the event loop of the caller does. */
  constructor(store: Store, options: LocksOptions, makeRenewer?: MakeRenewer) {
    this.store = store;
    this.settings = resolveLocksOptions(options);
    this.clock = options.clock ?? systemClock;
    this.owner = options.owner ?? defaultOwner(this.clock);
    this.ids = claimIds(this.owner, this.clock);
    this.commands = new Commands(this.clock, options.commandMs);
    this.claimCommands = new Commands(this.clock, options.commandMs);
    this.renewals = makeRenewer?.(this) ?? new Renewals(this);
    this.cleanUp = new CleanUp(this);
    this.processRef = new ProcessRef(this.clock);
    this.record = RECORDS.get(store) ?? { users: 0, fenceSeen: 0n };
    this.record.users += 1;
    RECORDS.set(store, this.record);
    this.#endEvictions = store.onEvicted?.((id) => this.#checkEvicted(id));
  }

  /**
   * Resolves once the store has answered. Rejects with the last failure early enough for the store
   * to be closed within `commandMs` of `startedMs`, when the client library was not loaded yet.
   */
  connect(startedMs: number): Promise<void> {
    const { clock, commands, store } = this;
    const { limitMs: commandMs } = commands;
    const leftMs = commandMs - (clock.monotonicMs() - startedMs);
    // Loading a client library may take long the first time. The server still gets half of the
    // time.
    const connectMs = Math.max(leftMs - Math.min(commandMs / 4, DISCONNECT_MS), commandMs / 2);
    return this.untilReached(
      (limitMs) => commands.run((signal) => firstAnswer(store, signal), limitMs),
      connectMs,
    );
  }

  /**
   * A server that is just starting refuses connections for a moment, so failures to reach it are
   * retried. Rejects with the last one after `withinMs`.
   */
  async untilReached<T>(
    attempt: (limitMs: number) => Promise<T>,
    withinMs: number = this.commands.limitMs,
  ): Promise<T> {
    const { clock } = this;
    const endMs = clock.monotonicMs() + withinMs;
    for (;;) {
      try {
        return await this.during(attempt(endMs - clock.monotonicMs()));
      } catch (error) {
        const isOver = clock.monotonicMs() + CONNECT_PAUSE_MS + CONNECT_TRY_MS > endMs;
        if (isOver || !isStoreError(error)) throw error;
        await this.during(pause(clock, CONNECT_PAUSE_MS));
      }
    }
  }

  /**
   * Every claim of a lock, as it is after this call began. Waiters that time out together, or that
   * wait for one run, share reads: with one for each, their number would count twice at the server.
   * While a read of the lock is pending, the next one waits for it, but not for long: its reply may
   * have been lost.
   */
  read(name: string, limitMs?: number): Promise<readonly StoredClaim[]> {
    const read = this.#nextReads.get(name) ?? this.#readInTurn(name);
    return this.during(this.commands.run(() => read, limitMs));
  }

  #readInTurn(name: string): Promise<readonly StoredClaim[]> {
    const mustWait = this.#reads.has(name);
    const turn = this.#reads.run(name, async () => {
      this.#nextReads.delete(name);
      const claims = this.commands.run((signal) => this.store.read(name, signal));
      await settlesWithin(this.clock, claims, READ_AHEAD_MS);
      return { claims };
    });
    const read = turn.then(({ claims }) => claims);
    if (mustWait) this.#nextReads.set(name, read);
    return read;
  }

  /**
   * The names in the store. Each step has a time limit of its own, so that a silent store cannot
   * hang the listing.
   */
  async *listNames(prefix: string): AsyncIterable<string> {
    const names = this.store.list(prefix)[Symbol.asyncIterator]();
    try {
      for (;;) {
        const { done, value } = await this.during(this.commands.run(() => names.next()));
        if (done === true) return;
        yield value;
      }
    } finally {
      names.return?.()?.catch(() => {});
    }
  }

  emit<E extends keyof LockEvents>(event: E, claim: ClaimRef, detail: EventDetail<E>): void {
    this.events.tell(event, claim, detail);
    if (!this.events.isWanted(event)) return;
    const { name, use } = usedName(claim.name);
    const emitted = { name, use, id: claim.id, owner: this.owner, ...detail };
    this.events.emit(event, emitted as unknown as LockEvents[E]);
  }

  assertOpen(): void {
    if (this.isClosed) throw new ClosedError();
  }

  /** Refuses new holds from here on, and stops every wait. */
  refuseNew(): void {
    this.isClosed = true;
    for (const wait of [...this.waits]) wait.stop(new ClosedError());
    this.claimCommands.abandonAll(new ClosedError());
  }

  /** Other programs may send such messages too, so the store is asked. */
  #checkEvicted(id: string | null): void {
    for (const held of this.renewals.holds) if (id === null || held.ref.id === id) this.renewals.check(held);
  }

  /** The last Locks that used the store closes it. */
  async leaveStore(): Promise<void> {
    this.#endEvictions?.();
    this.record.users -= 1;
    if (this.record.users > 0) return;
    RECORDS.delete(this.store);
    // A store that cannot reach its server must not keep `close` from ending.
    await this.commands.run(() => this.store.close(), CLOSE_MS).catch(() => {});
  }

  onHoldEnded(held: HeldClaim): void {
    this.renewals.remove(held);
    this.#onEnd?.();
  }

  /** A user's call is pending: closing waits for it, and the process stays alive. */
  beginCall(): void {
    this.processRef.begin();
    this.beginWork();
  }

  endCall(): void {
    this.processRef.end();
    this.endWork();
  }

  /** Keeps the process alive until this part of a user's call has settled. */
  async during<T>(work: Promise<T>): Promise<T> {
    this.processRef.begin();
    try {
      return await work;
    } finally {
      this.processRef.end();
    }
  }

  /** Background work, which only `close` waits for. */
  beginWork(): void {
    this.#working += 1;
  }

  endWork(): void {
    this.#working -= 1;
    this.#onEnd?.();
  }

  get isBusy(): boolean {
    return this.#working > 0;
  }

  /** Resolves when a hold or some work has ended, or after `ms`. */
  async nextEnd(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = this.clock.startTimer(ms, resolve, { keepAlive: true });
      this.#onEnd = () => {
        timer.cancel();
        resolve();
      };
    });
    this.#onEnd = null;
  }

  /** Closing waits for this work, whether it fails or not. */
  background(work: Promise<unknown>): void {
    this.beginWork();
    const end = (): void => this.endWork();
    work.then(end, end);
  }
}
