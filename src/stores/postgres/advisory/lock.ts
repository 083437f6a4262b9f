import type { Clock, Timer } from '../../../clock.ts';
import { QueueFullError, StoreError } from '../../../errors.ts';
import { DEFAULTS } from '../../../options.ts';
import type { ClaimOutcome, ClaimRequest, Waiter } from '../../../store/store.ts';
import type { LockKey } from './lock-key.ts';
import { type Session, TRUST_MS } from './session.ts';
import { SharedPromise } from './shared-promise.ts';
import { isAnnouncement, isRefusal, type LockMode, type Op } from './statement.ts';

/**
 * After a release for which other sessions wait, the claims of this process wait for this long.
 * Otherwise the process that released would win every time.
 */
const YIELD_MS = 5;
/**
 * How often the head of the queue asks again, give or take a fifth: a release by another program
 * sends no wake-up.
 */
const POLL_MIN_MS = 500;
const POLL_MAX_MS = 4_000;
/** When to ask again after another session's release kept the companion lock from being shared. */
const UNANNOUNCED_MS = 20;

export class Claim {
  readonly name: string;
  readonly id: string;
  readonly mode: LockMode;
  note: string;
  /** Woken when the claim should be asked for again and, once it is held, when it may be lost. */
  waiter: Waiter | undefined;
  fence: bigint | null = null;
  grantedAtMs = 0;
  /** When the caller last asked. A queued claim that is not asked for again is dropped. */
  askedAtMs = 0;
  /** The server's answer, while a request of this claim is pending. */
  pending: Promise<string> | null = null;
  #shared: { readonly pending: Promise<string>; readonly work: SharedPromise<string> } | null = null;

  constructor({ name, id, mode, note }: ClaimRequest) {
    this.name = name;
    this.id = id;
    this.mode = mode.kind === 'shared' ? 'shared' : 'exclusive';
    this.note = note;
  }

  /** The pending answer, for another caller, which may give up before the answer comes. */
  follow(pending: Promise<string>, signal?: AbortSignal): Promise<string> {
    if (this.#shared?.pending !== pending) this.#shared = { pending, work: new SharedPromise(pending) };
    return this.#shared.work.wait(signal);
  }
}

/** What the locks of a store share. */
export interface LockContext {
  readonly clock: Clock;
  readonly queueMax: number;
  /** The lock was granted or released. */
  onChange(lock: Lock): void;
  onUnused(lock: Lock): void;
}

/**
 * The state of one advisory lock in this process. PostgreSQL grants a session the same lock as often
 * as it asks, so this class decides which claim of the process may ask. Locks are found by key,
 * because two names may have the same key. An object lives at most as long as its session.
 */
export class Lock {
  readonly key: LockKey;
  readonly session: Session;
  readonly #context: LockContext;
  /** Granted or asked for, all of one mode: to the server they are one lock of the session. */
  readonly #users = new Map<string, Claim>();
  readonly #queue = new Map<string, Claim>();
  /** The claim that asks for the lock. Its answer decides for other claims too. */
  #asking: Claim | null = null;
  /** The session shares the companion lock, so other sessions see that a claim waits here. */
  #isAnnounced = false;
  /** While it runs, other sessions go first. */
  #yieldTimer: Timer | null = null;
  /** How many releases are pending. Their answers say whether other sessions wait. */
  #releasing = 0;
  #lastFence = 0n;
  #pollAtMs = 0;
  #polls = 0;

  constructor(key: LockKey, session: Session, context: LockContext) {
    this.key = key;
    this.session = session;
    this.#context = context;
  }

  get held(): readonly Claim[] {
    return [...this.#users.values()].filter(({ fence }) => fence !== null);
  }

  find(id: string): Claim | undefined {
    return this.#queue.get(id) ?? this.#users.get(id);
  }

  /** `null`: the lock changed while this call waited, so it has to start again. */
  async claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome | null> {
    const claim = this.find(request.id) ?? new Claim(request);
    if (waiter !== undefined) claim.waiter = waiter;
    if (claim.pending !== null) {
      await claim.follow(claim.pending, signal).catch(() => {});
      return null;
    }
    if (claim.fence !== null) return (await this.isConfirmed(claim)) ? granted(claim.fence) : null;

    claim.askedAtMs = this.#context.clock.monotonicMs();
    this.#dropStale(claim.askedAtMs);
    const asking = this.#asking;
    if (asking !== null && asking.pending !== null && this.#queue.size === 0) {
      const isRefused = await asking.follow(asking.pending, signal).then(isRefusal, () => false);
      // A refusal of that claim also refuses this one, unless only this one is shared.
      const isRefusedToo = isRefused && (asking.mode === 'shared' || claim.mode === 'exclusive');
      // A claim that waits must be announced to other sessions.
      return isRefusedToo && (!request.wait || this.#isAnnounced) ? this.#refuse(claim, request) : null;
    }
    return this.#mayAsk(claim) ? await this.#ask(claim, request, signal) : this.#refuse(claim, request);
  }

  /** Whether the session still has the lock. Rejects when that is unknown. */
  async isConfirmed(claim: Claim): Promise<boolean> {
    const { session } = this;
    try {
      await session.ask({ do: 'clock' });
    } catch (error) {
      if (!session.isLost) throw error;
    }
    return !session.isLost && this.#users.get(claim.id) === claim;
  }

  /** For a claim without a pending request. Resolves to whether it was there. */
  remove(claim: Claim): Promise<boolean> | boolean {
    return this.#users.has(claim.id) ? this.#giveUp(claim) : this.#leaveQueue(claim);
  }

  /** Another session has released this lock, and sent a NOTIFY because claims wait for it. */
  onReleasedElsewhere(): void {
    // While a release is pending or the timer runs, the notification may be this process's own: the
    // answer to the release decides who goes first.
    if (this.#yieldTimer === null && this.#releasing === 0) this.#wakeHead();
  }

  /** The session has ended. Returns the claims, held and queued. */
  end(): readonly Claim[] {
    this.#yieldTimer?.cancel();
    return [...this.#users.values(), ...this.#queue.values()];
  }

  get #head(): Claim | undefined {
    return this.#queue.values().next().value;
  }

  /** No claim of this process is ahead of it, and this process lets no other session go first. */
  #mayAsk(claim: Claim): boolean {
    const isNext = (this.#head ?? claim) === claim && this.#asking === null && this.#yieldTimer === null;
    return isNext && (this.#users.size === 0 || this.#canJoin(claim));
  }

  /** Whether the session has the lock already in a mode that fits this claim too. */
  #canJoin(claim: Claim): boolean {
    return claim.mode === 'shared' && this.#users.values().next().value?.mode === 'shared';
  }

  /** Asks for the lock or, where the session has it already, only for the time: that is the fence. */
  async #ask(claim: Claim, request: ClaimRequest, signal: AbortSignal | undefined): Promise<ClaimOutcome> {
    const { key, session } = this;
    const joins = this.#canJoin(claim);
    const announce = request.wait && !this.#isAnnounced;
    const op: Op = joins ? { do: 'clock' } : { do: 'lock', mode: claim.mode, key, announce };
    this.#users.set(claim.id, claim);
    if (!joins) this.#asking = claim;
    claim.pending = session.ask(op, signal);
    let hasLock = joins;
    try {
      let answer: string;
      try {
        answer = await claim.pending;
      } finally {
        // The claims that wait for this answer start again as soon as it is there.
        claim.pending = null;
        if (!joins) this.#asking = null;
      }
      if (isAnnouncement(answer)) this.#isAnnounced = true;
      hasLock ||= !isRefusal(answer);
      if (hasLock) return this.#grant(claim, request, answer);
      this.#users.delete(claim.id);
      this.#onRefused();
      return this.#refuse(claim, request);
    } catch (error) {
      if (hasLock && !session.isLost) {
        // Woken by its own unlock, it would ask again at once, and be refused for the same reason.
        claim.waiter = undefined;
        await this.#giveUp(claim).catch(() => {});
      }
      // No other failure leaves a lock: the request was not sent, was undone, or the session has ended.
      else this.#users.delete(claim.id);
      throw error;
    } finally {
      this.#tidy();
    }
  }

  /** Throws when the fence would not be above those seen before: the lock must be released then. */
  #grant(claim: Claim, { fenceAbove }: ClaimRequest, answer: string): ClaimOutcome {
    const { clock, onChange } = this.#context;
    const time = BigInt(answer.slice(1));
    // Two readers can have the same time, when one statement asked for both.
    const fence = time > this.#lastFence ? time : this.#lastFence + 1n;
    if (fence <= fenceAbove) {
      const clockBehind =
        `PostgreSQL: the server's clock is behind: it cannot give a fence above ${fenceAbove}, ` +
        `which was seen before, for key ${this.key.text}`;
      throw new StoreError(clockBehind, { applied: 'no' });
    }
    this.#lastFence = fence;
    claim.fence = fence;
    claim.grantedAtMs = clock.monotonicMs();
    this.session.holds += 1;
    this.#queue.delete(claim.id);
    this.#polls = 0;
    onChange(this);
    // Readers are granted together.
    if (this.#head?.mode === 'shared' && claim.mode === 'shared') this.#wakeHead();
    return granted(fence);
  }

  #refuse(claim: Claim, { name, wait }: ClaimRequest): ClaimOutcome {
    const { queueMax } = this.#context;
    if (!wait) {
      this.#leaveQueue(claim);
      return { granted: false, retryAfterMs: null };
    }
    if (!this.#queue.has(claim.id)) {
      if (this.#queue.size >= queueMax) throw new QueueFullError(name, queueMax);
      this.#queue.set(claim.id, claim);
    }
    return { granted: false, retryAfterMs: this.#retryAfterMs(claim) };
  }

  #onRefused(): void {
    const { clock } = this.#context;
    const everyMs = Math.min(POLL_MIN_MS * 2 ** this.#polls, POLL_MAX_MS);
    this.#polls += 1;
    // So that many processes do not ask at once.
    this.#pollAtMs = clock.monotonicMs() + everyMs * (0.8 + 0.4 * clock.random());
  }

  /** How long a queued claim may sleep when nothing wakes it. */
  #retryAfterMs(claim: Claim): number {
    if (this.#head !== claim || this.#users.size > 0) return DEFAULTS.queuePositionMs / 3;
    if (this.#yieldTimer !== null) return YIELD_MS;
    if (!this.#isAnnounced) return UNANNOUNCED_MS;
    return Math.max(this.#pollAtMs - this.#context.clock.monotonicMs(), 1);
  }

  /** Drops the claims at the head whose callers have not asked again in time. */
  #dropStale(nowMs: number): void {
    for (const [id, { pending, askedAtMs }] of this.#queue) {
      if (pending !== null || nowMs - askedAtMs <= DEFAULTS.queuePositionMs) return;
      this.#queue.delete(id);
    }
  }

  #leaveQueue(claim: Claim): boolean {
    const wasHead = this.#head === claim;
    if (!this.#queue.delete(claim.id)) return false;
    if (wasHead) this.#wakeHead();
    this.#tidy();
    return true;
  }

  /** Unlocks at the server when this was the last claim of the process that uses the lock. */
  async #giveUp(claim: Claim): Promise<boolean> {
    const { key, session } = this;
    this.#users.delete(claim.id);
    if (claim.fence !== null) session.holds -= 1;
    if (this.#users.size > 0) return true;
    const unlocked = session.ask({ do: 'unlock', mode: claim.mode, key });
    this.#releasing += 1;
    this.#tidy();
    let answer: string;
    try {
      answer = await unlocked;
    } finally {
      this.#releasing -= 1;
    }
    // Other sessions wait and were notified. They go first.
    if (answer === 'w') this.#yield();
    else this.#wakeHead();
    this.#context.onChange(this);
    this.#tidy();
    return answer !== 'n';
  }

  #yield(): void {
    this.#yieldTimer ??= this.#context.clock.startTimer(YIELD_MS, () => {
      this.#yieldTimer = null;
      this.#wakeHead();
      this.#tidy();
    });
  }

  /**
   * The lock may be free. With an empty queue the claim with a pending request is woken: its answer
   * may be older than the change.
   */
  #wakeHead(): void {
    (this.#head ?? this.#asking)?.waiter?.wake();
  }

  /**
   * Stops sharing the companion lock once no claim of this process waits. That travels in the same
   * statement as the unlock of a hold that had to wait.
   */
  #tidy(): void {
    if (this.#users.size > 0 || this.#queue.size > 0) return;
    if (this.#isAnnounced) {
      this.#isAnnounced = false;
      this.session.ask({ do: 'leave', key: this.key }).catch(() => {});
    }
    if (this.#releasing === 0 && this.#yieldTimer === null) this.#context.onUnused(this);
  }
}

function granted(fence: bigint): ClaimOutcome {
  return { granted: true, fence, validForMs: TRUST_MS };
}
