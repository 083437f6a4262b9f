import { FOREVER_MS } from '../clock.ts';
import type { Core } from '../core.ts';
import type { HeldClaim } from '../hold/held-claim.ts';
import type { Renewer } from '../hold/renewals.ts';
import { StallDetector } from '../hold/stall-detector.ts';
import type { Instant } from '../store/validity.ts';
import { EarliestTimer } from '../util/earliest-timer.ts';
import type { FromThread, KeptHold } from './messages.ts';
import { errorFrom } from './plain-error.ts';
import type { RenewalThread } from './renewal-thread.ts';
import { SharedDeadline } from './shared-deadline.ts';
import { type SharedHeader, type Slot, SlotPool } from './shared-slots.ts';

/** The thread has to see a shorter hold before it next looks by itself (`LOOK_MS`). */
const SHORT_MS = 3_000;

interface Kept {
  readonly held: HeldClaim;
  readonly slot: Slot;
  /** Set when the thread was asked to renew no more. */
  stopping: Promise<unknown> | null;
  isStopped: boolean;
}

/**
 * The holds of one Locks whose renewals run in a thread. Here they are only watched: a deadline
 * that has passed is acted on also when the thread says nothing.
 */
export class ThreadRenewals implements Renewer {
  readonly #core: Core;
  readonly #thread: RenewalThread;
  readonly #header: SharedHeader;
  readonly #slots: SlotPool;
  /** By claim id. */
  readonly #kept = new Map<string, Kept>();
  readonly stalls: StallDetector;
  /** For the deadlines of all holds. */
  readonly #timer: EarliestTimer;

  constructor(core: Core, thread: RenewalThread, header: SharedHeader) {
    this.#core = core;
    this.#thread = thread;
    this.#header = header;
    this.#timer = new EarliestTimer(core.clock, () => this.#checkDeadlines());
    this.#slots = new SlotPool((buffer) => thread.post({ kind: 'page', buffer }));
    this.stalls = new StallDetector(
      core,
      () => this.#checkDeadlines(),
      () => this.#showTurn(),
    );
    thread.onMessage((message) => this.#onMessage(message));
  }

  get holds(): readonly HeldClaim[] {
    return [...this.#kept.values()].map(({ held }) => held);
  }

  deadline(sent: Instant, validForMs: number): SharedDeadline {
    const { clock, store } = this.#core;
    return new SharedDeadline(clock, sent, validForMs, store.traits.lifetime === 'lease');
  }

  add(held: HeldClaim): void {
    const { clock } = this.#core;
    const deadline = held.deadline as SharedDeadline;
    const slot = this.#slots.take();
    slot.offer(deadline.end, describe(held));
    deadline.slot = slot;
    this.#kept.set(held.ref.id, { held, slot, stopping: null, isStopped: false });
    this.#showTurn();
    if (deadline.confirmed.ttlMs < SHORT_MS || !this.#header.isLooking) this.#lookNow();
    if (held.renew) this.stalls.start();
    this.#timer.setBy(clock.monotonicMs() + held.remainingMs);
  }

  remove({ ref }: HeldClaim): void {
    const kept = this.#kept.get(ref.id);
    if (kept === undefined) return;
    this.#kept.delete(ref.id);
    if (!kept.slot.takeBack()) this.#thread.post({ kind: 'drop', id: ref.id });
    this.#slots.giveBack(kept.slot);
  }

  renewNow(held: HeldClaim): void {
    this.#ask('renewNow', held);
  }

  check(held: HeldClaim): void {
    this.#ask('check', held);
  }

  #ask(kind: 'renewNow' | 'check', { ref }: HeldClaim): void {
    if (!this.#kept.has(ref.id)) return;
    this.#showTurn();
    this.#thread.post({ kind, id: ref.id });
  }

  /** The thread renews only while the event loop turns. Without renewed holds, no beat shows that. */
  #showTurn(): void {
    this.#header.setTurn(this.#core.clock);
  }

  async extend(held: HeldClaim, ttlMs: number): Promise<void> {
    held.assertHeld();
    const { id } = held.ref;
    this.#showTurn();
    if (this.#kept.has(id))
      await this.#core.commands.run((signal) => this.#thread.call('extend', [id, ttlMs], signal));
    held.onExtended(ttlMs);
    held.assertHeld();
    this.#timer.setBy(this.#core.clock.monotonicMs() + held.remainingMs);
  }

  /** The thread may be sending a renewal at any time, so it is asked to stop first. */
  inFlight(held: HeldClaim): Promise<unknown> | null {
    const kept = this.#kept.get(held.ref.id);
    if (kept === undefined || kept.isStopped) return null;
    const stopped = (): void => {
      kept.isStopped = true;
    };
    const { commands } = this.#core;
    const stop = (signal: AbortSignal): Promise<void> =>
      this.#thread.call('stopRenewing', [held.ref.id], signal);
    // Without an answer in time, a renewal may reach the store after the last command about the
    // claim, and shorten what that has set: the last command is then repeated.
    const onLate = (): void => held.onLateRenewal();
    kept.stopping ??= commands.run(stop, commands.limitMs, onLate).then(stopped, stopped);
    return kept.stopping;
  }

  close(): void {
    this.#timer.cancel();
    this.stalls.stop();
  }

  #lookNow(): void {
    this.#header.isLooking = true;
    this.#thread.post({ kind: 'look' });
  }

  #onMessage(message: FromThread): void {
    if (message.kind !== 'lost' && message.kind !== 'renewed' && message.kind !== 'renewFailed') return;
    const held = this.#kept.get(message.id)?.held;
    if (held === undefined || !held.checkDeadline()) return;
    if (message.kind === 'renewed') {
      const { tookMs, validForMs } = message;
      this.#core.emit('renewed', held.ref, { tookMs, validForMs });
    } else if (message.kind === 'renewFailed') {
      const { tookMs, remainingMs } = message;
      this.#core.emit('renewFailed', held.ref, { error: errorFrom(message.error), tookMs, remainingMs });
    }
  }

  #checkDeadlines(): void {
    let nextMs = FOREVER_MS;
    for (const { held } of [...this.#kept.values()]) {
      if (held.checkDeadline()) nextMs = Math.min(nextMs, held.remainingMs);
    }
    this.#timer.setBy(this.#core.clock.monotonicMs() + nextMs);
  }
}

function describe(held: HeldClaim): string {
  const { name, id } = held.ref;
  const { ttlMs, renew, renewEveryMs, maxHoldMs } = held.settings;
  const { confirmed, leastMs } = held.deadline;
  const { sent, ttlMs: validForMs } = confirmed;
  // JSON makes null of a time without end.
  const hold: KeptHold = { name, id, ttlMs, renew, renewEveryMs, maxHoldMs, sent, validForMs, leastMs };
  return JSON.stringify(hold);
}
