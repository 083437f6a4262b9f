import type { Timer } from '../clock.ts';
import type { Core } from '../core.ts';
import { DEFAULTS } from '../options.ts';
import type { ClaimRef } from '../store/store.ts';
import { backoff } from '../util/backoff.ts';
import { sendSafely } from '../util/command.ts';
import { codeOf, isStoreError } from '../util/error-code.ts';

/** The last command about a claim. Resolves to whether the store had the claim. */
export type LastCommand = (signal: AbortSignal) => Promise<boolean>;

export const TRY_MS = 1_500;

/** This many leftovers are tried at a time; only a few while the store fails. */
const TRIES_MAX = 256;
const TRIES_WHILE_FAILING = 16;

/** With this signal a store drops the waiter of a claim, and sends nothing. */
const ABANDONED = AbortSignal.abort();

interface Leftover {
  readonly send: LastCommand;
  readonly sinceMs: number;
  /** After this the lease has expired by itself, so there is nothing left to do. */
  readonly untilMs: number;
  /**
   * A claim request of unknown outcome may reach the server after the command, so the command is
   * repeated, also when it has found the claim: that may have been a later request by the same id.
   */
  readonly mayArriveLate: boolean;
}

/**
 * Removes, in the background, claims that no caller waits for any more: after an aborted or timed-out
 * wait, an unknown outcome, a late grant. While the store is out of reach, each claim costs one small
 * entry, and one timer serves all of them.
 */
export class CleanUp {
  readonly #core: Core;
  /** Leftovers whose last try has failed. `close` waits for these. */
  readonly #failed = new Set<Leftover>();
  #trying = 0;
  /** How many rounds in a row have failed. */
  #failures = 0;
  #retryTimer: Timer | null = null;
  /** The pauses before commands are repeated. */
  readonly #pauses = new Set<Timer>();

  constructor(core: Core) {
    this.#core = core;
  }

  /** Releases the claim. `mayArriveLate`: an earlier claim request may still reach the server. */
  release(ref: ClaimRef, ttlMs: number, mayArriveLate = false): void {
    const release: LastCommand = (signal) => this.#core.store.release(ref, signal);
    // This release may never be sent. A waiter that stayed in the store would count as the first one
    // of this process, and the waiters behind it would ask too seldom.
    if (this.#hasNoRoom) sendSafely(() => release(ABANDONED)).catch(() => {});
    this.send(release, lifeMs(ttlMs), mayArriveLate);
  }

  /** Sends the command until the store answers, for `forMs` at most. */
  send(send: LastCommand, forMs: number, mayArriveLate = false): void {
    const sinceMs = this.#core.clock.monotonicMs();
    this.#core.beginWork();
    this.#try({ send, sinceMs, untilMs: sinceMs + forMs, mayArriveLate });
  }

  /**
   * Repeats a command that the store has answered, after a pause, until no earlier claim request can
   * reach the server any more.
   */
  repeatLater(send: LastCommand, ttlMs: number): void {
    const sinceMs = this.#core.clock.monotonicMs();
    this.#lookAgain({ send, sinceMs, untilMs: sinceMs + lifeMs(ttlMs), mayArriveLate: true });
  }

  /** The store cannot be asked any more. */
  close(): void {
    for (const timer of this.#pauses) timer.cancel();
    this.#pauses.clear();
  }

  get #hasNoRoom(): boolean {
    return this.#failures > 0 && this.#trying >= TRIES_WHILE_FAILING;
  }

  #try(leftover: Leftover): void {
    if (this.#hasNoRoom) {
      this.#tryLater(leftover);
      return;
    }
    this.#trying += 1;
    this.#core.commands.run(leftover.send, TRY_MS).then(
      () => {
        this.#trying -= 1;
        this.#failures = 0;
        this.#core.endWork();
        if (leftover.mayArriveLate) this.#lookAgain(leftover);
        this.#retryFailed();
      },
      (error: unknown) => {
        this.#trying -= 1;
        if (isRetryable(error)) this.#tryLater(leftover);
        else {
          this.#core.endWork();
          if (this.#retryTimer === null) this.#retryFailed();
        }
      },
    );
  }

  #tryLater(leftover: Leftover): void {
    this.#failed.add(leftover);
    if (this.#retryTimer !== null) return;
    const { clock } = this.#core;
    this.#retryTimer = clock.startTimer(backoff(clock, this.#failures++, DEFAULTS.retryMs), () => {
      this.#retryTimer = null;
      this.#retryFailed();
    });
  }

  /** While the store fails, a few tries probe it. The first answer lets all others be tried. */
  #retryFailed(): void {
    if (this.#failed.size === 0) return;
    const nowMs = this.#core.clock.monotonicMs();
    let room = (this.#failures > 0 ? TRIES_WHILE_FAILING : TRIES_MAX) - this.#trying;
    for (const leftover of this.#failed) {
      const isOver = nowMs >= leftover.untilMs;
      // While the store answers, each answer makes room for the next.
      if (!isOver && room <= 0 && this.#failures === 0) break;
      if (!isOver && room <= 0) continue;
      this.#failed.delete(leftover);
      if (isOver) this.#core.endWork();
      else {
        room -= 1;
        this.#try(leftover);
      }
    }
  }

  /** The pauses grow with the time that has passed, so that a long TTL costs few commands. */
  #lookAgain(leftover: Leftover): void {
    const { clock, commands, isClosed } = this.#core;
    const nowMs = clock.monotonicMs();
    const pauseMs = Math.max(commands.limitMs, (nowMs - leftover.sinceMs) / 2);
    if (isClosed || nowMs + pauseMs >= leftover.untilMs) return;
    const timer = clock.startTimer(pauseMs, () => {
      this.#pauses.delete(timer);
      this.#core.beginWork();
      this.#try(leftover);
    });
    this.#pauses.add(timer);
  }
}

/** How long the store may have a claim that is not renewed: as a hold, or as a waiter. */
function lifeMs(ttlMs: number): number {
  return Math.max(ttlMs, DEFAULTS.queuePositionMs);
}

/** After the user has closed the client, no retry can succeed. */
export function isRetryable(error: unknown): boolean {
  return isStoreError(error) && codeOf(error.cause) !== 'CLOSED';
}
