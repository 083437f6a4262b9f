import type { Timer } from '../../../clock.ts';
import { DEFAULTS } from '../../../options.ts';
import type { Claim } from './claim.ts';
import type { LockKey } from './lock-key.ts';
import type { Session } from './session.ts';

/** After a release with others waiting elsewhere, ours let them go first for so long. Without it the process that released would win every time. */
export const COURTESY_MS = 5;
/** How often the first in line asks for what no wake-up tells: that another program has released. */
const POLL_MIN_MS = 500;
const POLL_MAX_MS = 4_000;
/** Who has just been refused, and is seen to wait, need not ask a second time only because it has begun to listen. */
const SETTLED_MS = 50;

/**
 * One advisory lock as this process has it. PostgreSQL gives a session the same lock as often as it asks, so here it is decided who of ours may ask: by key, since two names may have
 * the same one. Lives as long as the session.
 */
export class Lock {
  readonly key: LockKey;
  readonly session: Session;
  /** Granted, or asking to be. The server knows them as one. */
  readonly users = new Map<string, Claim>();
  /** Waiting, in order. */
  readonly line = new Map<string, Claim>();
  /** A request that decides for others too is on its way. Resolves to the mode that was refused, if one was. */
  asking: Promise<Claim['mode'] | null> | null = null;
  /** While it runs, others go first. */
  courtesy: Timer | null = null;
  /** Releases on their way, whose answer says whether others wait. */
  leaving = 0;
  lastFence = 0n;
  /** Something has changed since the server refused. */
  #isStirred = true;
  #refusedAtMs = 0;
  #pollAtMs = 0;
  #polls = 0;
  #mode: Claim['mode'] | null = null;
  #isArmed = false;

  constructor(key: LockKey, session: Session) {
    this.key = key;
    this.session = session;
  }

  /** What the session has, or has asked for. */
  get mode(): Claim['mode'] | null {
    return this.#mode;
  }

  set mode(mode: Claim['mode'] | null) {
    if ((mode === null) !== (this.#mode === null)) this.session.locks += mode === null ? -1 : 1;
    this.#mode = mode;
  }

  /** The server shows that somebody of ours waits. */
  get isArmed(): boolean {
    return this.#isArmed;
  }

  set isArmed(isArmed: boolean) {
    if (isArmed !== this.#isArmed) this.session.locks += isArmed ? 1 : -1;
    this.#isArmed = isArmed;
  }

  get head(): Claim | undefined {
    return this.line.values().next().value;
  }

  get isIdle(): boolean {
    const isQuiet = this.asking === null && this.leaving === 0 && this.courtesy === null;
    return isQuiet && this.users.size === 0 && this.line.size === 0;
  }

  /** May this claim ask the server? Those ahead of it go first, and so do others after a release. */
  mayAsk(claim: Claim): boolean {
    const head = this.head;
    if (head !== undefined && head !== claim) return false;
    if (this.courtesy !== null) return false;
    return this.mode === null || this.canJoin(claim);
  }

  /** Does the session have the lock already in a way that fits this claim too? */
  canJoin(claim: Claim): boolean {
    return this.mode === 'shared' && claim.mode === 'shared';
  }

  /** Has the server refused, and would it surely have told us of anything since? */
  isSettled(nowMs: number): boolean {
    return this.isArmed && !this.#isStirred && nowMs < this.#refusedAtMs + SETTLED_MS;
  }

  stir(): void {
    this.#isStirred = true;
  }

  onAsk(): void {
    this.#isStirred = false;
  }

  /** `random`: from 0 to 1, so that many processes do not ask at once. */
  onRefused(nowMs: number, random: number): void {
    this.#refusedAtMs = nowMs;
    const everyMs = Math.min(POLL_MIN_MS * 2 ** this.#polls, POLL_MAX_MS);
    this.#polls = Math.min(this.#polls + 1, 10);
    this.#pollAtMs = nowMs + everyMs * (0.8 + 0.4 * random);
  }

  onGranted(): void {
    this.#polls = 0;
  }

  /** How long one who waits may sleep when nothing wakes it. */
  retryAfterMs(claim: Claim, nowMs: number): number {
    if (this.head !== claim || this.mode !== null) return DEFAULTS.placeMs / 3;
    if (this.courtesy !== null) return COURTESY_MS;
    // Not seen to wait, because somebody looked at that instant.
    if (!this.isArmed || this.#isStirred) return COURTESY_MS * 4;
    return Math.max(this.#pollAtMs - nowMs, 1);
  }

  /** Those who have not asked for their place again have gone. */
  dropStale(nowMs: number): void {
    for (const claim of this.line.values()) {
      if (claim.asking !== null || nowMs - claim.askedAtMs <= DEFAULTS.placeMs) return;
      this.line.delete(claim.id);
    }
  }
}
