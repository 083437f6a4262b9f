import { ownerOf } from '../../../claim-id.ts';
import type { Clock } from '../../../clock.ts';
import { QueueFullError, StoreError, UnsupportedError } from '../../../errors.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Waiter,
} from '../../../store/store.ts';
import type { EvictionListeners } from '../../shared/eviction-listeners.ts';
import { gaveUp } from '../failure.ts';
import { Claim } from './claim.ts';
import type { KeyFinder } from './key-of-name.ts';
import { LocalLocks } from './local-locks.ts';
import { type Lock, YIELD_MS } from './lock.ts';
import { LockTableLimit } from './lock-table-limit.ts';
import type { PolledObservers } from './polled-observers.ts';
import { TRUST_MS } from './session.ts';
import type { Sessions } from './sessions.ts';
import { isRefusal } from './statement.ts';

interface ClaimsOptions {
  readonly clock: Clock;
  readonly sessions: Sessions;
  readonly keys: KeyFinder;
  readonly observers: PolledObservers;
  readonly evictions: EvictionListeners;
  readonly queueMax: number;
}

interface Found {
  readonly lock: Lock;
  readonly claim: Claim;
}

/** How often a call starts again because the lock changed while it waited, before it is refused. */
const TRIES = 8;

/** The claims of this process: claim, renew, release and evict, and which waiters are woken. */
export class Claims {
  readonly locks = new LocalLocks();
  readonly #options: ClaimsOptions;
  readonly #limit: LockTableLimit;
  /** The holds that were evicted, until their next renewal. */
  readonly #evicted = new Set<string>();

  constructor(options: ClaimsOptions) {
    this.#options = options;
    this.#limit = new LockTableLimit(options.clock);
  }

  async claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    const { sessions, keys, clock } = this.#options;
    if (request.mode.kind === 'permits') throw new UnsupportedError('Advisory locks cannot count permits');
    for (let tries = 0; tries < TRIES; tries += 1) {
      const session = sessions.now ?? (await sessions.current(ownerOf(request.id), signal));
      if (!session.isNamed) session.introduce(ownerOf(request.id));
      const key = keys.known(request.name, session) ?? (await keys.find(request.name, session));
      if (!this.#limit.isWithin(session)) await this.#limit.extend(session, signal);
      // The caller may have given up while this call waited for a connection.
      if (signal?.aborted === true) throw gaveUp();
      if (session.isLost) continue;

      const nowMs = clock.monotonicMs();
      const lock = this.locks.of(key, session);
      const claim = lock.find(request.id) ?? new Claim(request, nowMs);
      if (waiter !== undefined) claim.waiter = waiter;
      if (claim.pending !== null) {
        await claim.follow(claim.pending, signal).catch(() => {});
        continue;
      }
      if (claim.fence !== null) {
        if (await this.#isConfirmed(lock, claim)) return granted(claim);
        continue;
      }

      claim.askedAtMs = nowMs;
      lock.dropStale(nowMs);
      if (lock.asking !== null && lock.queueSize === 0) {
        const isRefused = await isRefusedToo(lock.asking, claim, signal);
        // A claim that waits must be announced to other sessions.
        if (isRefused && (!request.wait || lock.isAnnounced)) return this.#refuse(lock, claim, request);
        continue;
      }
      if (lock.asking !== null || !lock.mayAsk(claim)) return this.#refuse(lock, claim, request);
      if (lock.canJoin(claim)) return await this.#join(lock, claim, request, signal);
      return await this.#ask(lock, claim, request, signal);
    }
    return { granted: false, retryAfterMs: null };
  }

  async renew(ref: ClaimRef, change: RenewChange): Promise<RenewOutcome> {
    const found = await this.#find(ref);
    if (found === null || found.claim.fence === null || !(await this.#isConfirmed(found.lock, found.claim)))
      return { held: false, how: this.#evicted.delete(ref.id) ? 'taken' : 'session' };
    if (change.note !== undefined) found.claim.note = change.note;
    return { held: true, validForMs: TRUST_MS };
  }

  /** Resolves to whether this call removed the claim. */
  async release(ref: ClaimRef): Promise<boolean> {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const found = await this.#find(ref);
      if (found === null) return false;
      const { lock, claim } = found;
      if (claim.pending === null) return await this.#remove(lock, claim);
      await claim.follow(claim.pending).catch(() => {});
    }
    throw new StoreError('The claim could not be released while it was asked for again', { applied: 'no' });
  }

  /** Removes a claim of this process. Its holder is told, renews, and so learns of the loss. */
  async evict(ref: ClaimRef): Promise<boolean> {
    const found = await this.#find(ref);
    if (found === null || !(await this.release(ref))) return false;
    const { fence, waiter } = found.claim;
    if (fence === null) waiter?.wake();
    else {
      // Its holder renews at once. Without a waiter nobody renews, and nothing has to be kept.
      if (waiter !== undefined) this.#evicted.add(ref.id);
      this.#options.evictions.tell(ref.id);
    }
    return true;
  }

  /** Another session has released this lock, and sent a NOTIFY because claims wait for it. */
  onReleasedElsewhere(key: string): void {
    const lock = this.locks.get(key);
    // While the timer runs, the notification is this process's own: its waiter yields to others.
    if (lock?.yieldTimer === null) lock.wakeHead();
    this.#options.observers.notify(key);
  }

  async #find(ref: ClaimRef): Promise<Found | null> {
    const { sessions, keys } = this.#options;
    sessions.assertOpen();
    const session = sessions.now;
    if (session === null) return null;
    const key = keys.known(ref.name, session) ?? (await keys.find(ref.name, session));
    const lock = this.locks.get(key.text);
    const claim = lock?.find(ref.id);
    return lock === undefined || claim === undefined ? null : { lock, claim };
  }

  /** Whether the session still has the lock. Rejects when that is unknown. */
  async #isConfirmed(lock: Lock, claim: Claim): Promise<boolean> {
    try {
      await lock.session.ask({ do: 'ping' });
    } catch (error) {
      if (!lock.session.isLost) throw error;
    }
    return !lock.session.isLost && lock.users.get(claim.id) === claim;
  }

  #refuse(lock: Lock, claim: Claim, request: ClaimRequest): ClaimOutcome {
    const { queueMax, clock } = this.#options;
    if (!request.wait) {
      this.#leaveQueue(lock, claim);
      return { granted: false, retryAfterMs: null };
    }
    if (!lock.isQueued(claim)) {
      if (lock.queueSize >= queueMax) throw new QueueFullError(request.name, queueMax);
      lock.enqueue(claim);
    }
    return { granted: false, retryAfterMs: lock.retryAfterMs(claim, clock.monotonicMs()) };
  }

  /** The session has the shared lock already. Only the server's time is needed, for the fence. */
  async #join(
    lock: Lock,
    claim: Claim,
    request: ClaimRequest,
    signal: AbortSignal | undefined,
  ): Promise<ClaimOutcome> {
    lock.users.set(claim.id, claim);
    claim.pending = lock.session.ask({ do: 'clock' }, signal);
    try {
      return this.#grant(lock, claim, request, await claim.pending);
    } catch (error) {
      if (!lock.session.isLost && lock.users.get(claim.id) === claim)
        await this.#giveUp(lock, claim).catch(() => {});
      throw error;
    } finally {
      claim.pending = null;
    }
  }

  async #ask(
    lock: Lock,
    claim: Claim,
    request: ClaimRequest,
    signal: AbortSignal | undefined,
  ): Promise<ClaimOutcome> {
    const { clock } = this.#options;
    const { mode } = claim;
    const announce = request.wait && !lock.isAnnounced;
    lock.users.set(claim.id, claim);
    lock.mode = mode;
    lock.asking = claim;
    claim.pending = lock.session.ask({ do: 'lock', mode, key: lock.key, announce }, signal);
    try {
      const answer = await claim.pending;
      if (answer.startsWith('G') || answer === 'a') lock.isAnnounced = true;
      if (!isRefusal(answer)) return this.#grant(lock, claim, request, answer);
      this.#unuse(lock, claim);
      lock.onRefused(clock.monotonicMs(), clock.random());
      return this.#refuse(lock, claim, request);
    } catch (error) {
      // No other failure leaves a lock: the request was not sent, was undone, or the session has ended.
      if (error instanceof ClockBehindError) await this.#giveUp(lock, claim);
      else if (lock.users.get(claim.id) === claim) this.#unuse(lock, claim);
      throw error;
    } finally {
      claim.pending = null;
      lock.asking = null;
      this.#tidy(lock);
    }
  }

  #unuse(lock: Lock, claim: Claim): void {
    lock.users.delete(claim.id);
    lock.mode = null;
  }

  /** Throws when the fence would not be above those seen before: the lock must be released then. */
  #grant(lock: Lock, claim: Claim, request: ClaimRequest, answer: string): ClaimOutcome {
    const { clock, observers } = this.#options;
    const time = BigInt(answer.slice(1));
    // Two readers can have the same time, when one statement asked for both.
    const fence = time > lock.lastFence ? time : lock.lastFence + 1n;
    if (fence <= request.fenceAbove) throw new ClockBehindError(lock, request);
    lock.lastFence = fence;
    claim.fence = fence;
    lock.session.holds += 1;
    claim.grantedAtMs = clock.monotonicMs();
    lock.dequeue(claim);
    lock.onGranted();
    observers.notify(lock.key.text);
    // Readers are granted together.
    if (lock.head?.mode === 'shared' && claim.mode === 'shared') lock.wakeHead();
    return granted(claim);
  }

  async #remove(lock: Lock, claim: Claim): Promise<boolean> {
    if (lock.users.get(claim.id) === claim) return await this.#giveUp(lock, claim);
    return this.#leaveQueue(lock, claim);
  }

  #leaveQueue(lock: Lock, claim: Claim): boolean {
    const wasHead = lock.head === claim;
    if (!lock.dequeue(claim)) return false;
    if (wasHead) lock.wakeHead();
    this.#tidy(lock);
    return true;
  }

  /** Unlocks at the server when this was the last claim of the process that uses the lock. */
  async #giveUp(lock: Lock, claim: Claim): Promise<boolean> {
    const { observers } = this.#options;
    lock.users.delete(claim.id);
    if (claim.fence !== null) lock.session.holds -= 1;
    const { mode, key } = lock;
    if (lock.users.size > 0 || mode === null) return true;
    lock.mode = null;
    const unlocked = lock.session.ask({ do: 'unlock', mode, key });
    lock.releasing += 1;
    this.#tidy(lock);
    let answer: string;
    try {
      answer = await unlocked;
    } finally {
      lock.releasing -= 1;
    }
    if (answer === 'w') this.#yield(lock);
    else if (lock.mode === null) lock.wakeHead();
    observers.notify(key.text);
    this.#tidy(lock);
    return answer !== 'n';
  }

  /** Other sessions wait and were notified. They go first. */
  #yield(lock: Lock): void {
    lock.yieldTimer ??= this.#options.clock.startTimer(YIELD_MS, () => {
      lock.yieldTimer = null;
      lock.wakeHead();
      this.#tidy(lock);
    });
  }

  /**
   * Stops sharing the companion lock once no claim of this process waits. The operation travels in
   * the same statement as the unlock of a hold that had to wait.
   */
  #tidy(lock: Lock): void {
    if (lock.isAnnounced && lock.queueSize === 0 && lock.users.size === 0 && lock.asking === null) {
      lock.isAnnounced = false;
      lock.session.ask({ do: 'leave', key: lock.key }).catch(() => {});
    }
    this.locks.forgetIdle(lock);
  }
}

/** A refusal of one claim also refuses this one, unless only this one is shared. */
async function isRefusedToo(asking: Claim, claim: Claim, signal: AbortSignal | undefined): Promise<boolean> {
  if (asking.pending === null) return false;
  const isRefused = await asking.follow(asking.pending, signal).then(isRefusal, () => false);
  return isRefused && (asking.mode === 'shared' || claim.mode === 'exclusive');
}

class ClockBehindError extends StoreError {
  constructor({ key }: Lock, { fenceAbove }: ClaimRequest) {
    super(
      `PostgreSQL: the server's clock is behind: it cannot give a fence above ${fenceAbove}, ` +
        `which was seen before, for key ${key.text}`,
      { applied: 'no' },
    );
  }
}

function granted({ fence }: Claim): ClaimOutcome {
  return { granted: true, fence: fence ?? 0n, validForMs: TRUST_MS };
}
