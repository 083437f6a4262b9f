import { FOREVER_MS, type Timer } from '../clock.ts';
import type { Core } from '../core.ts';
import { HeldClaim } from '../hold/held-claim.ts';
import { codeOf } from '../util/error-code.ts';
import type { LoopCheckingStore } from './loop-checking-store.ts';
import type { FromThread, KeptHold } from './messages.ts';
import { plainError } from './plain-error.ts';
import { PublishedDeadline } from './shared-deadline.ts';
import { type SharedHeader, type Slot, slotsOf } from './shared-slots.ts';

/** How often the thread looks for new holds, and after how many looks without one it stops. */
const LOOK_MS = 250;
const IDLE_LOOKS_MAX = 4;

interface Kept {
  readonly held: HeldClaim;
  readonly slot: Slot;
}

/**
 * The holds of the process, as its renewal thread keeps them alive: each is a `HeldClaim` here too.
 */
export class KeptHolds {
  readonly #core: Core;
  readonly #store: LoopCheckingStore;
  readonly #slots: Slot[] = [];
  readonly #byId = new Map<string, Kept>();
  readonly #header: SharedHeader;
  #timer: Timer | null = null;
  /** How often in a row there was nothing to keep. */
  #idleLooks = 0;

  constructor(
    core: Core,
    store: LoopCheckingStore,
    header: SharedHeader,
    post: (message: FromThread) => void,
  ) {
    this.#core = core;
    this.#store = store;
    this.#header = header;
    core.events.on('renewed', ({ id, tookMs, validForMs }) => {
      post({ kind: 'renewed', id, tookMs, validForMs });
    });
    core.events.on('renewFailed', ({ id, error, tookMs, remainingMs }) => {
      post({ kind: 'renewFailed', id, error: plainError(error), tookMs, remainingMs });
    });
    core.events.on('lost', ({ id, how }) => {
      this.#byId.get(id)?.slot.setLost(how);
      post({ kind: 'lost', id });
    });
  }

  addPage(buffer: SharedArrayBuffer): void {
    this.#slots.push(...slotsOf(buffer));
  }

  /** Takes on the new holds, and looks again every `LOOK_MS` while there are any. */
  look(): void {
    this.#accept();
    this.#idleLooks = 0;
    this.#lookLater();
  }

  #lookLater(): void {
    const { clock } = this.#core;
    this.#timer ??= clock.startTimer(LOOK_MS, () => {
      this.#timer = null;
      this.#accept();
      this.#idleLooks = this.#byId.size > 0 ? 0 : this.#idleLooks + 1;
      if (this.#idleLooks < IDLE_LOOKS_MAX) this.#lookLater();
      else this.#stopLooking();
    });
  }

  #stopLooking(): void {
    this.#header.isLooking = false;
    // A hold that was offered just before this is taken on here; a later one comes with a message.
    this.#accept();
    if (this.#byId.size > 0) {
      this.#header.isLooking = true;
      this.look();
    }
  }

  #accept(): void {
    for (const slot of this.#slots) {
      const text = slot.accept();
      if (text !== null) this.#keep(slot, JSON.parse(text) as KeptHold);
    }
  }

  #keep(slot: Slot, hold: KeptHold): void {
    const core = this.#core;
    const { name, id, ttlMs, renew, renewEveryMs, sent, validForMs } = hold;
    const maxHoldMs = hold.maxHoldMs ?? FOREVER_MS;
    const isLease = core.store.traits.lifetime === 'lease';
    const deadline = new PublishedDeadline(core.clock, sent, validForMs, isLease);
    deadline.limitTo(hold.leastMs ?? FOREVER_MS);
    deadline.slot = slot;
    const settings = { ...core.settings, ttlMs, renew, renewEveryMs, maxHoldMs };
    // The fence is known to the process. Nothing here asks for it.
    const held = new HeldClaim(core, { name, id }, settings, 0n, deadline);
    this.#byId.set(id, { held, slot });
    core.renewals.add(held);
  }

  /** The process has given the hold up. From here on the slot can be used for another hold. */
  drop(id: string): void {
    const kept = this.#byId.get(id);
    if (kept === undefined) return;
    const { held, slot } = kept;
    this.#byId.delete(id);
    held.detach();
    this.#core.renewals.remove(held);
    (held.deadline as PublishedDeadline).slot = null;
    slot.setFree();
  }

  /** Whether the claim is a hold that is renewed here, and is not lost. */
  isKept(id: string): boolean {
    return this.#heldBy(id)?.isHeld === true;
  }

  /** The store says that something has happened to the claim. False when no hold of it is kept. */
  renewNow(id: string): boolean {
    const held = this.#heldBy(id);
    if (held !== undefined) this.#core.renewals.renewNow(held);
    return held !== undefined;
  }

  check(id: string): void {
    const held = this.#heldBy(id);
    if (held !== undefined) this.#core.renewals.check(held);
  }

  /** Resolves also when the hold is lost: its slot says so. */
  async extend(id: string, ttlMs: number): Promise<void> {
    const held = this.#heldBy(id);
    if (held === undefined) return;
    try {
      await this.#core.renewals.extend(held, ttlMs);
    } catch (error) {
      if (codeOf(error) !== 'HOLD_LOST') throw error;
    }
  }

  async stopRenewing(id: string): Promise<void> {
    const held = this.#heldBy(id);
    if (held === undefined) return;
    held.detach();
    this.#core.renewals.remove(held);
    // Also those that were not answered in time: one that arrives late would set the claim's time
    // again.
    await this.#store.renewalsOf(id);
  }

  /** By the claim's id: a slot may have another hold by the time that a message arrives. */
  #heldBy(id: string): HeldClaim | undefined {
    if (!this.#byId.has(id)) this.#accept();
    return this.#byId.get(id)?.held;
  }
}
