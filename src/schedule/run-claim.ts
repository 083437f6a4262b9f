import { FOREVER_MS } from '../clock.ts';
import type { Core } from '../core.ts';
import { type AcquireRequest, acquire, tryAcquire } from '../hold/acquire.ts';
import type { HeldClaim } from '../hold/held-claim.ts';
import type { Settings } from '../options.ts';
import { EXCLUSIVE } from '../primitives/mutex.ts';
import type { StoredClaim } from '../store/store.ts';
import { storedName } from '../use.ts';
import { backoff, pause } from '../util/backoff.ts';
import { isStoreError } from '../util/error-code.ts';
import { metadataIn } from '../view.ts';
import type { SlotClaims } from './slot-claims.ts';

const RETRY = { min: 20, max: 500 };

interface TryOptions {
  /** Whether another try is useless by now. */
  readonly shouldGiveUp: () => boolean;
  /** Ends the pause before the next try. */
  readonly signal: AbortSignal;
}

/** The claim that keeps the runs of one schedule apart: only its holder runs. */
export class RunClaim {
  readonly #core: Core;
  readonly #storedName: string;
  readonly #settings: Settings;
  readonly #slotClaims: SlotClaims;

  constructor(core: Core, schedule: string, settings: Settings, slotClaims: SlotClaims) {
    this.#core = core;
    this.#storedName = storedName('schedule', schedule);
    this.#settings = settings;
    this.#slotClaims = slotClaims;
  }

  /** Waits in the queue until no other process has the claim. */
  acquire(slotMs: number, signal: AbortSignal): Promise<HeldClaim> {
    const request = this.#request(slotMs);
    return acquire(this.#core, { ...request, settings: { ...request.settings, waitMs: FOREVER_MS, signal } });
  }

  /**
   * For the run of a slot that this process has taken. `null` when another run is in progress, or when
   * the store did not answer before `shouldGiveUp` returned true.
   */
  async tryForSlot(slotMs: number, { shouldGiveUp, signal }: TryOptions): Promise<HeldClaim | null> {
    const { clock, ids, store } = this.#core;
    const ownIds = new Set<string>();
    for (let attempt = 0; !shouldGiveUp(); attempt += 1) {
      const id = ids.next();
      ownIds.add(id);
      try {
        const held = await tryAcquire(this.#core, { ...this.#request(slotMs), id });
        if (held !== null) return held;
        // Where one server decides, the first refusal is final. Nodes that vote may all refuse, and
        // a try of unknown outcome may have left a claim that refuses the next one.
        if (store.traits.ordered && attempt === 0) return null;
        if (await this.isRunInProgress(ownIds)) return null;
      } catch (error) {
        if (!isStoreError(error)) throw error;
      }
      await pause(clock, backoff(clock, attempt, RETRY), { signal });
    }
    return null;
  }

  /** For an extra run. `null` when another run is in progress. Rejects when the store fails. */
  async tryForExtraRun({ shouldGiveUp, signal }: TryOptions): Promise<HeldClaim | null> {
    const { clock } = this.#core;
    for (let attempt = 0; ; attempt += 1) {
      const held = await tryAcquire(this.#core, this.#request(null));
      if (held !== null) return held;
      if (await this.isRunInProgress()) return null;
      await pause(clock, backoff(clock, attempt, RETRY), { signal });
      if (shouldGiveUp()) return null;
    }
  }

  /**
   * The process runs a later slot than the one it has queued for. Stores the later one in the claim's
   * note, which wakes the other waiters: each sends one claim. Resolves to whether the claim is still
   * held. Rejects with a `StoreError` when that is not known.
   */
  async showSlot({ ref, ttlMs }: HeldClaim, slotMs: number): Promise<boolean> {
    const { commands, store } = this.#core;
    const change = { ttlMs, note: this.#noteOf(slotMs) };
    return (await commands.run((signal) => store.renew(ref, change, signal))).held;
  }

  /**
   * Whether a process runs. A process whose slot is done has the claim only for the moment in which it
   * finds that out.
   */
  async isRunInProgress(exceptIds: ReadonlySet<string> = new Set()): Promise<boolean> {
    const holder = await this.#holder();
    if (holder === null || exceptIds.has(holder.id)) return false;
    const slotMs = slotOf(holder);
    return slotMs === null || !(await this.#slotClaims.isDone(slotMs));
  }

  /** The slot of the run in progress. An extra run has none. */
  async runningSlotMs(): Promise<number | null> {
    const holder = await this.#holder();
    return holder === null ? null : slotOf(holder);
  }

  async #holder(): Promise<StoredClaim | null> {
    const claims = await this.#core.read(this.#storedName);
    return claims.find((claim) => claim.granted) ?? null;
  }

  #request(slotMs: number | null): AcquireRequest {
    const settings = { ...this.#settings, waitMs: 0, signal: undefined, note: this.#noteOf(slotMs) };
    return { name: this.#storedName, mode: EXCLUSIVE, settings };
  }

  /** The user's metadata and the slot. `slot` is never the user's own: readers take it for a slot. */
  #noteOf(slotMs: number | null): string {
    const { note } = this.#settings;
    const { slot, ...metadata } = metadataIn(note) ?? {};
    if (slotMs !== null) return JSON.stringify({ ...metadata, slot: new Date(slotMs).toISOString() });
    return slot === undefined ? note : JSON.stringify(metadata);
  }
}

function slotOf({ note }: StoredClaim): number | null {
  const slot = metadataIn(note)?.slot;
  const slotMs = typeof slot === 'string' ? Date.parse(slot) : Number.NaN;
  return Number.isNaN(slotMs) ? null : slotMs;
}
