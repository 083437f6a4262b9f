import { ownerOf } from '../../../claim-id.ts';
import type { Clock } from '../../../clock.ts';
import { LineFullError, StoreError, UnsupportedError } from '../../../errors.ts';
import type { ClaimOutcome, ClaimRef, ClaimRequest } from '../../../store/store.ts';
import type { Watchers } from '../../memory/watchers.ts';
import type { Budget } from './budget.ts';
import { Claim } from './claim.ts';
import type { KeyFinder } from './key-finder.ts';
import { COURTESY_MS, type Lock } from './lock.ts';
import type { LockTable } from './lock-table.ts';
import { TRUST_MS } from './session.ts';
import type { Sessions } from './sessions.ts';

export interface Parts {
  readonly clock: Clock;
  readonly sessions: Sessions;
  readonly table: LockTable;
  readonly watchers: Watchers;
  readonly keys: KeyFinder;
  readonly budget: Budget;
  readonly lineMax: number;
}

/** How often a claim may find that things have changed while it waited for another's answer, before it is refused for now. */
const TRIES = 8;

/** Taking and giving up: `claim`, `release`, and what follows from them for those who wait. */
export class Asking {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async claim(request: ClaimRequest, signal: AbortSignal | undefined): Promise<ClaimOutcome> {
    const { sessions, keys, table, budget, clock } = this.#parts;
    if (request.mode.kind === 'permits') throw new UnsupportedError('Advisory locks cannot count permits');
    for (let tries = 0; tries < TRIES; tries += 1) {
      const session = sessions.now ?? (await sessions.current(ownerOf(request.id)));
      if (!session.isNamed) session.introduce(ownerOf(request.id));
      const key = keys.known(request.name, session) ?? (await keys.find(request.name, session));
      if (!budget.isWithin(session)) await budget.extend(session);
      if (session.isLost) continue;
      const lock = table.of(key, session);
      const found = claimIn(lock, request.id);
      if (found !== undefined && found.asking !== null) {
        await found.asking.catch(() => {});
        continue;
      }
      if (found !== undefined && found.fence !== null) {
        if (await this.isConfirmed(lock, found)) return granted(found);
        continue;
      }
      const claim = found ?? new Claim(request, clock.monotonicMs());
      const outcome = await this.#decide(lock, claim, request, signal);
      if (outcome !== null) return outcome;
    }
    return { granted: false, retryAfterMs: null };
  }

  /** Whether the hold is still there, by the server's word. Rejects when nobody knows. */
  async isConfirmed(lock: Lock, claim: Claim): Promise<boolean> {
    try {
      await lock.session.queue.add({ do: 'ping' });
    } catch (error) {
      if (!lock.session.isLost) throw error;
    }
    return !lock.session.isLost && lock.users.get(claim.id) === claim;
  }

  /** Resolves to whether this call removed it. */
  async release(ref: ClaimRef): Promise<boolean> {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const found = this.#findNow(ref) ?? (await this.find(ref));
      if (found === 'nowhere') return false;
      const [lock, claim] = found;
      if (claim.asking === null) return await this.remove(lock, claim);
      await claim.asking.catch(() => {});
    }
    throw new StoreError('The claim is being asked for again and again', { applied: 'no' });
  }

  async find(ref: ClaimRef): Promise<[Lock, Claim] | 'nowhere'> {
    const { sessions, keys } = this.#parts;
    const { now } = sessions;
    if (now !== null && keys.known(ref.name, now) === undefined) await keys.find(ref.name, now);
    return this.#findNow(ref) ?? 'nowhere';
  }

  /** Whether it is held, or waits, over the session of now. */
  isHere(ref: ClaimRef): boolean {
    return Array.isArray(this.#findNow(ref));
  }

  /** `null`: the server has to be asked for the name's key first. */
  #findNow(ref: ClaimRef): [Lock, Claim] | 'nowhere' | null {
    const { sessions, keys, table } = this.#parts;
    sessions.assertOpen();
    const session = sessions.now;
    if (session === null) return 'nowhere';
    const key = keys.known(ref.name, session);
    if (key === undefined) return null;
    const lock = table.get(key.text);
    const claim = lock === undefined ? undefined : claimIn(lock, ref.id);
    return lock === undefined || claim === undefined ? 'nowhere' : [lock, claim];
  }

  /** Gives up a hold or a place in line. */
  async remove(lock: Lock, claim: Claim): Promise<boolean> {
    if (lock.users.get(claim.id) === claim) return await this.#leave(lock, claim);
    const wasHead = lock.head === claim;
    if (!lock.line.delete(claim.id)) return false;
    if (wasHead) this.wakeHead(lock);
    this.#tidy(lock);
    return true;
  }

  /** The lock may be free: the first in line asks again. */
  wakeHead(lock: Lock): void {
    lock.stir();
    if (lock.head !== undefined) this.#parts.watchers.tellClaim(lock.head.id);
  }

  /** `null`: another's answer has come meanwhile, look again. */
  async #decide(
    lock: Lock,
    claim: Claim,
    request: ClaimRequest,
    signal: AbortSignal | undefined,
  ): Promise<ClaimOutcome | null> {
    const nowMs = this.#parts.clock.monotonicMs();
    claim.askedAtMs = nowMs;
    lock.dropStale(nowMs);
    if (lock.asking !== null && lock.line.size === 0) {
      const refused = await lock.asking;
      // What was refused to another just now is refused to us, unless we want less.
      const isRefused = refused !== null && (refused === 'shared' || claim.mode === 'exclusive');
      return isRefused ? this.#refuse(lock, claim, request) : null;
    }
    const isSettled = lock.head === claim && lock.isSettled(nowMs);
    if (lock.asking !== null || isSettled || !lock.mayAsk(claim)) return this.#refuse(lock, claim, request);
    return lock.canJoin(claim)
      ? await this.#join(lock, claim, request, signal)
      : await this.#ask(lock, claim, request, signal);
  }

  #refuse(lock: Lock, claim: Claim, request: ClaimRequest): ClaimOutcome {
    const { lineMax, clock } = this.#parts;
    if (!request.wait) {
      this.remove(lock, claim).catch(() => {});
      return { granted: false, retryAfterMs: null };
    }
    if (!lock.line.has(claim.id)) {
      if (lock.line.size >= lineMax) throw new LineFullError(request.name, lineMax);
      lock.line.set(claim.id, claim);
    }
    return { granted: false, retryAfterMs: lock.retryAfterMs(claim, clock.monotonicMs()) };
  }

  /** The session shares the lock already: what is missing is a time under it. */
  async #join(
    lock: Lock,
    claim: Claim,
    request: ClaimRequest,
    signal: AbortSignal | undefined,
  ): Promise<ClaimOutcome> {
    lock.users.set(claim.id, claim);
    const asking = lock.session.queue.add({ do: 'clock' }, signal);
    claim.asking = asking;
    try {
      const outcome = this.#grant(lock, claim, request, await asking);
      if (outcome === null) throw behind(lock, request);
      return outcome;
    } catch (error) {
      if (!lock.session.isLost && lock.users.get(claim.id) === claim)
        await this.#leave(lock, claim).catch(() => {});
      throw error;
    } finally {
      claim.asking = null;
    }
  }

  async #ask(
    lock: Lock,
    claim: Claim,
    request: ClaimRequest,
    signal: AbortSignal | undefined,
  ): Promise<ClaimOutcome> {
    const { clock } = this.#parts;
    lock.users.set(claim.id, claim);
    lock.mode = claim.mode;
    lock.onAsk();
    const line = request.wait && !lock.isArmed;
    const asking = lock.session.queue.add({ do: 'lock', mode: claim.mode, key: lock.key, line }, signal);
    claim.asking = asking;
    let tell: (refused: Claim['mode'] | null) => void = () => {};
    lock.asking = new Promise((resolve) => {
      tell = resolve;
    });
    let refused: Claim['mode'] | null = null;
    try {
      const answer = await asking;
      if (answer.startsWith('G') || answer === 'a') lock.isArmed = true;
      if (answer.length > 1) {
        const outcome = this.#grant(lock, claim, request, answer);
        if (outcome !== null) return outcome;
        await this.#leave(lock, claim);
        throw behind(lock, request);
      }
      refused = claim.mode;
      this.#unuse(lock, claim);
      lock.onRefused(clock.monotonicMs(), clock.random());
      return this.#refuse(lock, claim, request);
    } catch (error) {
      // What was not sent, or was undone, left nothing; what went with the session neither.
      if (lock.users.get(claim.id) === claim) this.#unuse(lock, claim);
      throw error;
    } finally {
      claim.asking = null;
      lock.asking = null;
      tell(refused);
      this.#tidy(lock);
    }
  }

  #unuse(lock: Lock, claim: Claim): void {
    lock.users.delete(claim.id);
    lock.mode = null;
  }

  /** `null`: the fence would not be above what was seen. */
  #grant(lock: Lock, claim: Claim, request: ClaimRequest, answer: string): ClaimOutcome | null {
    const { clock, watchers } = this.#parts;
    const time = BigInt(answer.slice(1));
    // Only readers who asked in one statement can have the same time.
    const fence = time > lock.lastFence ? time : lock.lastFence + 1n;
    if (fence <= request.fenceAbove) return null;
    lock.lastFence = fence;
    claim.fence = fence;
    lock.session.holds += 1;
    claim.grantedAtMs = clock.monotonicMs();
    lock.line.delete(claim.id);
    lock.onGranted();
    watchers.tellName(lock.key.text);
    // Readers enter together.
    if (lock.head?.mode === 'shared' && claim.mode === 'shared') this.wakeHead(lock);
    return granted(claim);
  }

  async #leave(lock: Lock, claim: Claim): Promise<boolean> {
    const { clock, watchers } = this.#parts;
    lock.users.delete(claim.id);
    if (claim.fence !== null) lock.session.holds -= 1;
    const { mode } = lock;
    if (lock.users.size > 0 || mode === null) return true;
    lock.mode = null;
    const asked = lock.session.queue.add({ do: 'unlock', mode, key: lock.key, line: true });
    lock.leaving += 1;
    this.#tidy(lock);
    const answer = await asked.finally(() => {
      lock.leaving -= 1;
    });
    if (answer === 'w' && lock.courtesy === null) {
      lock.courtesy = clock.startTimer(COURTESY_MS, () => {
        lock.courtesy = null;
        this.wakeHead(lock);
        this.#tidy(lock);
      });
    } else if (lock.mode === null) this.wakeHead(lock);
    watchers.tellName(lock.key.text);
    this.#tidy(lock);
    return answer !== 'n';
  }

  /** Nobody of ours waits any more: the server need not show it. Later than that, since a hold that was waited for is given up in the same statement. */
  #tidy(lock: Lock): void {
    if (lock.isArmed && lock.line.size === 0 && lock.users.size === 0 && lock.asking === null) {
      lock.isArmed = false;
      lock.session.queue.add({ do: 'leave', key: lock.key }).catch(() => {});
    }
    this.#parts.table.forgetIdle(lock);
  }
}

function claimIn(lock: Lock, id: string): Claim | undefined {
  return lock.line.get(id) ?? lock.users.get(id);
}

function behind({ key }: Lock, { fenceAbove }: ClaimRequest): StoreError {
  return new StoreError(
    `PostgreSQL: the server's clock is behind: a fence above ${fenceAbove}, which was given before, cannot be had for key ${key.text}`,
    { applied: 'no' },
  );
}

function granted({ fence }: Claim): ClaimOutcome {
  return { granted: true, fence: fence ?? 0n, validForMs: TRUST_MS };
}
