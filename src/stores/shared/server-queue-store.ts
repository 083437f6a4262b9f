import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import type { DiagnoseContext, Finding } from '../../store/finding.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  PushedGrant,
  RenewChange,
  RenewOutcome,
  Store,
  StoredClaim,
  Traits,
  Waiter,
  WatchTarget,
} from '../../store/store.ts';
import { Commands } from '../../util/command.ts';
import { isDefinite } from '../../util/error-code.ts';
import { Callbacks, disposable } from './callback-index.ts';
import { KeyedTimers } from './keyed-timers.ts';
import { type OnChange, RegisteredObservers } from './registered-observers.ts';
import { type Refusal, type RetryPolicy, retryAfterMs } from './retry-after.ts';
import type { Subscription } from './subscription.ts';
import { WakeList } from './wake-list.ts';

export type ClaimAnswer =
  | { readonly granted: true; readonly fence: bigint }
  | ({ readonly granted: false } & Refusal);

export interface ReleaseRequest extends ClaimRef {
  readonly evict: boolean;
  /** The claim itself had to wait, so other claims probably wait for its release. */
  readonly hasWaited: boolean;
}

/** `handed`: the claim is gone, and a waiter was granted that has to confirm it. */
export type ReleaseAnswer = 'gone' | 'removed' | 'handed';

/** What the subscription reports. */
export interface SubscriptionEvents {
  /** This claim was granted. Without the grant itself, its waiter has to ask. */
  onGranted(id: string, grant: PushedGrant | null): void;
  onChanged(name: string, mayGrant: boolean): void;
  /** A claim was evicted; any process may have made it. */
  onEvicted(id: string): void;
  /** A waiter ahead was granted. If it is dead, only the waiters behind it may be left to notice. */
  onHandoff(name: string): void;
  /** Not subscribed, and a claim may be granted by now. */
  onPoll(): void;
  /** Whether this process has waiters or observers. */
  isWanted(): boolean;
  /** Whether this process waits for this claim, and can be woken. */
  isWaiting(id: string): boolean;
  /** The connection came up or broke, so messages may have been missed. */
  onGap(): void;
}

/** Of the server's messages. It is opened for the first waiter or observer, and reconnects by itself. */
export type QueueSubscription = Pick<Subscription<unknown>, 'isUp' | 'start' | 'close'>;

/**
 * A server that keeps the queue itself. Each operation is one atomic step. Operations of one tick
 * may be sent as a batch.
 */
export interface QueueServer {
  /** The `kind` of the store. */
  readonly kind: string;
  /** The product, for error texts. */
  readonly label: string;
  readonly fenceMax: bigint;
  readonly retry: RetryPolicy;
  subscribe(events: SubscriptionEvents): QueueSubscription;
  assertOpen(): void;
  claim(request: ClaimRequest, signal: AbortSignal | undefined): Promise<ClaimAnswer>;
  renew(claim: ClaimRef, change: RenewChange, signal: AbortSignal | undefined): Promise<RenewOutcome>;
  release(request: ReleaseRequest, signal: AbortSignal | undefined): Promise<ReleaseAnswer>;
  /**
   * Tells every process that is subscribed of an eviction. Absent where the server cannot: the holder
   * learns of it at its next renewal.
   */
  announceEviction?(claim: ClaimRef, signal: AbortSignal | undefined): Promise<void>;
  /**
   * Asks the server to report every change of a lock for `forMs`; 0 ends the reports. Resolves to
   * false when it cannot: observers are called every 400 ms then.
   */
  observe(name: string, forMs: number, signal: AbortSignal): Promise<boolean>;
  read(name: string, signal: AbortSignal | undefined): Promise<readonly StoredClaim[]>;
  list(prefix: string, signal: AbortSignal | undefined): AsyncIterable<string>;
  diagnose?(context: DiagnoseContext): Promise<readonly Finding[]>;
  close(): Promise<void>;
}

const IDS_MAX = 10_000;

/** The ids of claims that were added last. The oldest is forgotten, so that the set has a bound. */
class RecentIds extends Set<string> {
  override add(id: string): this {
    super.add(id);
    const [oldest] = this.size > IDS_MAX ? this : [];
    if (oldest !== undefined) this.delete(oldest);
    return this;
  }
}

/** The id of no claim: such a release only grants the waiters that fit. */
const NOBODY = '';
/**
 * A pushed grant with less than this share of its time left is only a wake-up: a claim that asks
 * gets the full time.
 */
const PUSHED_SHARE_MIN = 0.5;

/** How long a pushed grant lasts without confirmation (`UNCONFIRMED_MS` of the Redis scripts). */
const UNCONFIRMED_MS = 5_000;
/** Most holds end before this time, and then need no confirmation. */
const CONFIRM_AFTER_MS = 100;
/** A failed confirmation is tried again after this time, while the grant lasts. */
const CONFIRM_AGAIN_MS = 1_200;
const CONFIRM_TRIES = 4;
/**
 * The time limit of requests that no caller waits for. On a silent connection they must be given up
 * as soon as the renewals beside them.
 */
const BACKGROUND_MS = 2_000;
/** After this time, a grant that was not confirmed has certainly ended. */
const HANDOFF_CHECK_MS = UNCONFIRMED_MS + 100;

/**
 * A store over a server that keeps the queue itself. It knows the waiters of this process, decides
 * which of them asks again and when, and passes on wake-ups and pushed grants.
 */
export class ServerQueueStore implements Store {
  readonly kind: string;
  readonly traits: Traits = { lifetime: 'lease', ordered: true, counting: true, remembers: true };
  readonly onEvicted: Store['onEvicted'];
  readonly #evictions = new Callbacks<[id: string | null]>();
  readonly #server: QueueServer;
  readonly #clock: Clock;
  readonly #background: Commands;
  readonly #waiting: WakeList;
  readonly #observers: RegisteredObservers;
  /** By lock: a release of this process has handed it to a waiter, which may be dead. */
  readonly #handoffChecks: KeyedTimers;
  /** By claim: a pushed grant that is not confirmed yet. */
  readonly #unconfirmed: KeyedTimers;
  readonly #subscription: QueueSubscription;
  /** Holds that had to wait: their release is likely to be awaited too. */
  readonly #hasWaited = new RecentIds();
  #closing: Promise<void> | null = null;

  constructor(server: QueueServer, clock: Clock) {
    this.kind = server.kind;
    this.onEvicted = server.announceEviction === undefined ? undefined : this.#evictions.add;
    this.#server = server;
    this.#clock = clock;
    this.#waiting = new WakeList(clock, server.retry.firstMs ?? server.retry.firstLookMs);
    this.#background = new Commands(clock, BACKGROUND_MS);
    this.#observers = new RegisteredObservers(clock, (name, forMs) =>
      this.#background.run((signal) => server.observe(name, forMs, signal)),
    );
    this.#handoffChecks = new KeyedTimers(clock);
    this.#unconfirmed = new KeyedTimers(clock);
    this.#subscription = server.subscribe({
      onGranted: (id, grant) => this.#onGranted(id, grant),
      onChanged: (name, mayGrant) => this.#observers.tell(name, mayGrant),
      onEvicted: (id) => this.#evictions.call(id),
      onHandoff: (name) => this.#waiting.wakeFirstIn(name, HANDOFF_CHECK_MS),
      onPoll: () => this.#waiting.wakeFirsts(),
      isWanted: () => !this.#waiting.isEmpty || !this.#observers.isEmpty,
      isWaiting: (id) => this.#waiting.get(id) !== undefined,
      onGap: () => this.#onGap(),
    });
  }

  claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    const { label, fenceMax } = this.#server;
    if (request.fenceAbove > fenceMax) {
      const problem = `${label} cannot count above fence ${request.fenceAbove}`;
      return Promise.reject(new StoreError(problem, { applied: 'no' }));
    }
    // Before the claim is sent: a message may arrive before the answer.
    const isHeard = request.wait && waiter !== undefined && this.#subscription.isUp;
    const isNew = isHeard && this.#waiting.add(request, waiter);
    return this.#server.claim(request, signal).then(
      (answer) => {
        if (answer.granted) return this.#granted(request, answer.fence);
        const isLate = request.wait && !isHeard && signal?.aborted !== true;
        if (isLate && waiter !== undefined) this.#listenLate(request, waiter);
        return this.#refused(request, answer);
      },
      (error: unknown) => {
        // A full queue, for example: the claim was not enqueued, so no release will drop the waiter.
        if (isNew && isDefinite(error)) this.#waiting.remove(request);
        throw error;
      },
    );
  }

  #granted(request: ClaimRequest, fence: bigint): ClaimOutcome {
    this.#unconfirmed.delete(request.id);
    // Beside a reader or a permit there may be room for the next waiter. While not subscribed, no
    // message tells it.
    const isToldOrBlocked = this.#subscription.isUp || request.mode.kind === 'exclusive';
    this.#waiting.setDue(request.name, isToldOrBlocked ? request.ttlMs : 0);
    this.#waiting.remove(request);
    return { granted: true, fence, validForMs: request.ttlMs };
  }

  /** The claim was sent while not subscribed, so the server does not know its channel. */
  #listenLate(request: ClaimRequest, waiter: Waiter): void {
    this.#waiting.add(request, waiter);
    // Subscribed by now: every other waiter was woken at that moment.
    if (this.#subscription.isUp) waiter.wake();
  }

  #refused(request: ClaimRequest, refusal: Refusal): ClaimOutcome {
    const { name, id } = request;
    const enteredAgoMs = this.#waiting.enqueue(request);
    const hasWaiter = this.#waiting.get(id) !== undefined;
    if (hasWaiter) {
      this.#hasWaited.add(id);
      // Comes up in the background, and then wakes all waiters: see `#onGap`.
      if (!this.#subscription.isUp) void this.#subscription.start();
    }
    const { lookMs, keepMs } = retryAfterMs(
      this.#server.retry,
      this.#clock,
      { ...refusal, enteredAgoMs },
      hasWaiter && this.#subscription.isUp,
    );
    this.#waiting.setDue(name, lookMs);
    const retryMs = this.#waiting.isFirst(name, id) ? Math.min(lookMs, keepMs) : keepMs;
    return { granted: false, retryAfterMs: Math.max(Math.ceil(retryMs), 1) };
  }

  /** A message says that the claim was granted. It is taken as a grant, or only as a wake-up. */
  #onGranted(id: string, grant: PushedGrant | null): void {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    const { ttlMs, waiter } = waiting;
    const mostMs = Math.min(ttlMs, UNCONFIRMED_MS);
    if (grant === null || grant.validForMs < mostMs * PUSHED_SHARE_MIN) {
      waiter.wake();
      return;
    }
    if (ttlMs > UNCONFIRMED_MS) this.#confirmAfter(CONFIRM_AFTER_MS, id, waiter, CONFIRM_TRIES);
    // It seems to end later if the clock of the server was set forward before it was granted.
    this.#waiting.push(waiting, { fence: grant.fence, validForMs: Math.min(grant.validForMs, mostMs) });
  }

  /** A wake-up asks the owner to renew the claim. That extends the grant to the TTL asked for. */
  #confirmAfter(ms: number, id: string, waiter: Waiter, tries: number): void {
    this.#unconfirmed.set(id, ms, () => {
      if (tries > 1) this.#confirmAfter(CONFIRM_AGAIN_MS, id, waiter, tries - 1);
      waiter.wake();
    });
  }

  renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    const renewed = this.#server.renew(claim, change, signal);
    if (this.#unconfirmed.isEmpty) return renewed;
    return renewed.then((outcome) => {
      this.#unconfirmed.delete(claim.id);
      return outcome;
    });
  }

  release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    this.#waiting.remove(claim);
    this.#unconfirmed.delete(claim.id);
    const { name, id } = claim;
    return this.#remove({ name, id, evict: false, hasWaited: this.#hasWaited.delete(id) }, signal);
  }

  async evict({ name, id }: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    const isRemoved = await this.#remove({ name, id, evict: true, hasWaited: false }, signal);
    if (isRemoved) {
      this.#evictions.call(id);
      // The claim is gone whether or not its holder is told now.
      await this.#server.announceEviction?.({ name, id }, signal).catch(() => {});
    }
    return isRemoved;
  }

  #remove(request: ReleaseRequest, signal: AbortSignal | undefined): Promise<boolean> {
    return this.#server.release(request, signal).then((answer) => {
      if (answer === 'handed') this.#onHandedOver(request.name);
      return answer !== 'gone';
    });
  }

  /**
   * The server cannot always tell that a waiter is dead: a stopped process, or a host without power,
   * still seems to be subscribed. This process then hands the lock to the next waiter. One check after
   * a burst of handoffs is enough.
   */
  #onHandedOver(name: string): void {
    this.#handoffChecks.set(name, HANDOFF_CHECK_MS, () => {
      this.#background.run((signal) => this.release({ name, id: NOBODY }, signal)).catch(() => {});
    });
    // The granted waiter may belong to this process. Without a subscription, it would learn of the
    // grant only at its next poll.
    if (!this.#subscription.isUp) this.#waiting.wakeFirst(name);
  }

  async watch({ name }: WatchTarget, onChange: OnChange): Promise<AsyncDisposable> {
    this.#server.assertOpen();
    const stop = this.#observers.add(name, onChange);
    await this.#subscription.start();
    await this.#observers.register(name);
    return disposable(stop);
  }

  read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]> {
    return this.#server.read(name, signal);
  }

  list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    return this.#server.list(prefix, signal);
  }

  async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    return (await this.#server.diagnose?.(context)) ?? [];
  }

  /** No waiters, no observers, no handoff to check. */
  protected get isQuiet(): boolean {
    return this.#waiting.isEmpty && this.#observers.isEmpty && this.#handoffChecks.isEmpty;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#waiting.clear();
    this.#handoffChecks.clear();
    this.#unconfirmed.clear();
    this.#observers.clear();
    this.#evictions.clear();
    await Promise.all([this.#subscription.close(), this.#server.close()]);
  }

  /**
   * Messages may have been missed, and the server may take this process for dead. Every waiter asks
   * again, which also tells the server where to send messages.
   */
  #onGap(): void {
    this.#waiting.wakeAll();
    this.#observers.onGap();
  }
}
