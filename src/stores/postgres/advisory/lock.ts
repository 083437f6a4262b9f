import type { Timer } from '../../../clock.ts';
import { DEFAULTS } from '../../../options.ts';
import type { Claim } from './claim.ts';
import type { LockKey } from './key-parameters.ts';
import type { Session } from './session.ts';

/**
 * After a release for which other sessions wait, the claims of this process wait for this long.
 * Otherwise the process that released would win every time.
 */
export const YIELD_MS = 5;
/** How often the head of the queue asks again: a release by another program sends no wake-up. */
const POLL_MIN_MS = 500;
const POLL_MAX_MS = 4_000;
/**
 * When to ask again after the companion lock could not be shared, because another session's release
 * tried it at that moment.
 */
const UNANNOUNCED_MS = 20;

/**
 * The state of one advisory lock in this process. PostgreSQL grants a session the same lock as often
 * as it asks, so this class decides which claim of the process may ask. Locks are found by key,
 * because two names may have the same key. An object lives at most as long as its session.
 */
export class Lock {
  readonly key: LockKey;
  readonly session: Session;
  /** The claims that are granted or asked for. The server sees them as one lock of the session. */
  readonly users = new Map<string, Claim>();
  /** The claim whose request is pending. Its answer decides for other claims too. */
  asking: Claim | null = null;
  /** While it runs, other sessions go first. */
  yieldTimer: Timer | null = null;
  /** How many releases are pending. Their answers say whether other sessions wait. */
  releasing = 0;
  lastFence = 0n;
  /** The claims that wait, in order; `null` until the first one does. */
  #queue: Map<string, Claim> | null = null;
  #pollAtMs = 0;
  #polls = 0;
  #mode: Claim['mode'] | null = null;
  #isAnnounced = false;

  constructor(key: LockKey, session: Session) {
    this.key = key;
    this.session = session;
  }

  /** The mode that the session has the lock in, or has asked for. */
  get mode(): Claim['mode'] | null {
    return this.#mode;
  }

  set mode(mode: Claim['mode'] | null) {
    if ((mode === null) !== (this.#mode === null)) this.session.locks += mode === null ? -1 : 1;
    this.#mode = mode;
  }

  /**
   * The session shares the companion lock, so other sessions see that a claim of this process
   * waits.
   */
  get isAnnounced(): boolean {
    return this.#isAnnounced;
  }

  set isAnnounced(isAnnounced: boolean) {
    if (isAnnounced !== this.#isAnnounced) this.session.locks += isAnnounced ? 1 : -1;
    this.#isAnnounced = isAnnounced;
  }

  get queued(): readonly Claim[] {
    return [...(this.#queue?.values() ?? [])];
  }

  get queueSize(): number {
    return this.#queue?.size ?? 0;
  }

  get head(): Claim | undefined {
    return this.#queue?.values().next().value;
  }

  isQueued(claim: Claim): boolean {
    return this.#queue?.get(claim.id) === claim;
  }

  enqueue(claim: Claim): void {
    this.#queue ??= new Map();
    this.#queue.set(claim.id, claim);
  }

  /** False when it was not queued. */
  dequeue(claim: Claim): boolean {
    return this.#queue?.delete(claim.id) === true;
  }

  get isIdle(): boolean {
    const isQuiet = this.asking === null && this.releasing === 0 && this.yieldTimer === null;
    return isQuiet && this.users.size === 0 && this.queueSize === 0;
  }

  find(id: string): Claim | undefined {
    return this.#queue?.get(id) ?? this.users.get(id);
  }

  /**
   * Whether this claim may ask the server: no claim is ahead of it in the queue, and this process is
   * not letting other sessions go first.
   */
  mayAsk(claim: Claim): boolean {
    const head = this.head;
    if (head !== undefined && head !== claim) return false;
    if (this.yieldTimer !== null) return false;
    return this.mode === null || this.canJoin(claim);
  }

  /** Whether the session has the lock already in a mode that fits this claim too. */
  canJoin(claim: Claim): boolean {
    return this.mode === 'shared' && claim.mode === 'shared';
  }

  /**
   * The lock may be free. With an empty queue the claim with a pending request is woken: its answer
   * may be older than the change.
   */
  wakeHead(): void {
    (this.head ?? this.asking)?.waiter?.wake();
  }

  /** `random`: from 0 to 1, so that many processes do not ask at once. */
  onRefused(nowMs: number, random: number): void {
    const everyMs = Math.min(POLL_MIN_MS * 2 ** this.#polls, POLL_MAX_MS);
    this.#polls = Math.min(this.#polls + 1, 10);
    this.#pollAtMs = nowMs + everyMs * (0.8 + 0.4 * random);
  }

  onGranted(): void {
    this.#polls = 0;
  }

  /** How long a queued claim may sleep when nothing wakes it. */
  retryAfterMs(claim: Claim, nowMs: number): number {
    if (this.head !== claim || this.mode !== null) return DEFAULTS.queuePositionMs / 3;
    if (this.yieldTimer !== null) return YIELD_MS;
    return this.isAnnounced ? Math.max(this.#pollAtMs - nowMs, 1) : UNANNOUNCED_MS;
  }

  /** Drops the claims at the head whose callers have not asked again in time. */
  dropStale(nowMs: number): void {
    for (let { head } = this; head !== undefined; head = this.head) {
      if (head.pending !== null || nowMs - head.askedAtMs <= DEFAULTS.queuePositionMs) return;
      this.dequeue(head);
    }
  }
}
