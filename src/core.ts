import { claimIds, defaultOwner } from './claim-id.ts';
import type { Clock } from './clock.ts';
import { systemClock } from './clock.ts';
import { ClosedError } from './errors.ts';
import { Events, type LockEvents } from './events.ts';
import { Bag } from './hold/bag.ts';
import { Commands } from './hold/command.ts';
import type { Grant } from './hold/grant.ts';
import { Keepalive } from './hold/keepalive.ts';
import { StayAlive } from './hold/stay-alive.ts';
import { type LocksOptions, resolveLocksOptions, type Settings } from './options.ts';
import type { ClaimRef, Store, StoredClaim } from './store/store.ts';

/** Something that must end when the Locks closes: a pending acquire, an observer. */
export interface Closable {
  onClose(error: ClosedError): void;
}

/** A candidate or another long-lived user of holds, which is asked to end before the holds are waited for. */
export interface Stoppable {
  stop(): Promise<void>;
}

/** What is shared by all Locks of this process that use one store. */
interface StoreRecord {
  users: number;
  /** The greatest fence seen from this store: no later grant may be below it, whatever the store has forgotten meanwhile. */
  fenceSeen: bigint;
}

const RECORDS = new WeakMap<Store, StoreRecord>();

/** What the parts of one Locks share. */
export class Core {
  readonly store: Store;
  readonly clock: Clock;
  readonly owner: string;
  readonly nextId: () => string;
  readonly settings: Settings;
  readonly events = new Events();
  readonly commands: Commands;
  readonly keepalive: Keepalive;
  readonly stayAlive: StayAlive;
  readonly grants = new Bag<Grant>();
  readonly closables = new Set<Closable>();
  readonly stoppables = new Set<Stoppable>();
  readonly record: StoreRecord;
  isClosed = false;
  #working = 0;
  #onEnd: (() => void) | null = null;

  constructor(store: Store, options: LocksOptions) {
    this.store = store;
    this.settings = resolveLocksOptions(options);
    this.clock = options.clock ?? systemClock;
    this.owner = options.owner ?? defaultOwner(this.clock);
    this.nextId = claimIds(this.owner, this.clock);
    this.commands = new Commands(this.clock);
    this.keepalive = new Keepalive(this);
    this.stayAlive = new StayAlive(this.clock);
    this.record = RECORDS.get(store) ?? { users: 0, fenceSeen: 0n };
    this.record.users += 1;
    RECORDS.set(store, this.record);
  }

  /** What is known of a lock now. */
  read(name: string, limitMs?: number): Promise<readonly StoredClaim[]> {
    return this.commands.run((signal) => this.store.read(name, signal), limitMs);
  }

  /** Tells those who listen. */
  emit<E extends keyof LockEvents>(
    event: E,
    { name, id }: ClaimRef,
    detail: Omit<LockEvents[E], 'name' | 'id' | 'owner'>,
  ): void {
    if (!this.events.wanted(event)) return;
    this.events.emit(event, { name, id, owner: this.owner, ...detail } as unknown as LockEvents[E]);
  }

  assertOpen(): void {
    if (this.isClosed) throw new ClosedError();
  }

  /** No new holds from here on; what waits is refused. */
  refuseNew(): void {
    this.isClosed = true;
    for (const closable of [...this.closables]) closable.onClose(new ClosedError());
  }

  /** The last Locks that used the store closes it. */
  async leaveStore(): Promise<void> {
    this.record.users -= 1;
    if (this.record.users > 0) return;
    RECORDS.delete(this.store);
    // A store that cannot say goodbye to its server must not keep ours from ending.
    await this.commands.run(() => this.store.close()).catch(() => {});
  }

  dropGrant(grant: Grant): void {
    this.grants.delete(grant);
    this.#onEnd?.();
  }

  /** An acquire or a release is under way, and closing waits for it. */
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

  /** Closing waits for it; whether it fails is nobody's business. */
  background(work: Promise<unknown>): void {
    this.beginWork();
    const end = (): void => this.endWork();
    work.then(end, end);
  }
}
