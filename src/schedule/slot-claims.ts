import type { Core } from '../core.ts';
import { EXCLUSIVE } from '../primitives/mutex.ts';
import type { ClaimRef } from '../store/store.ts';
import { DONE, slotIn, slotName, slotPrefix, storedName } from '../use.ts';
import { backoff, pause } from '../util/backoff.ts';
import { isStoreError } from '../util/error-code.ts';
import { metadataIn } from '../view.ts';

/** The note of a slot's claim until its run has ended. */
const STARTED = '{"schedule":"started"}';
const RETRY = { min: 50, max: 1_000 };

/** What the claim of a slot says about its run. */
export interface RememberedSlot {
  readonly slotMs: number;
  readonly isDone: boolean;
}

interface TakeOptions {
  readonly rememberMs: number;
  readonly note: 'started' | 'done';
  /** Whether to give up; called after each failure of the store. */
  readonly shouldGiveUp: () => boolean;
  /** Ends the wait for a store that fails. */
  readonly signal?: AbortSignal;
}

/**
 * The claims of the slots of one schedule. Each slot has a claim of its own, which is never
 * released and so is granted to at most one process while the store remembers it.
 */
export class SlotClaims {
  readonly #core: Core;
  readonly #schedule: string;

  constructor(core: Core, schedule: string) {
    this.#core = core;
    this.#schedule = schedule;
  }

  /** Whether a process has taken this slot's claim. */
  async isTaken(slotMs: number): Promise<boolean> {
    const claims = await this.#core.read(slotName(this.#schedule, slotMs));
    return claims.some((claim) => claim.granted);
  }

  /**
   * Takes the slot's claim. `null` when another process has it, or when the store did not answer
   * before `shouldGiveUp` returned true. After a lost reply, the claim is sent again with the same
   * id. A claim of unknown outcome is not cleaned up: it may exist without a run, and its slot is
   * then missed.
   */
  async take(slotMs: number, options: TakeOptions): Promise<ClaimRef | null> {
    const { clock, commands, nextId, record, store } = this.#core;
    const ref = { name: slotName(this.#schedule, slotMs), id: nextId() };
    const note = options.note === 'done' ? DONE : STARTED;
    const fixed = { mode: EXCLUSIVE, ttlMs: options.rememberMs, wait: false, note };
    for (let failures = 0; ; failures += 1) {
      try {
        const request = { ...ref, ...fixed, fenceAbove: record.fenceSeen };
        const { granted } = await commands.run((signal) => store.claim(request, signal));
        return granted ? ref : null;
      } catch (error) {
        if (!isStoreError(error)) throw error;
        await pause(clock, backoff(clock, failures, RETRY), options.signal && { signal: options.signal });
        if (options.shouldGiveUp()) return null;
      }
    }
  }

  /** The run of a slot that was taken at its start has ended. Only `last()` depends on it. */
  async finish(claim: ClaimRef, rememberMs: number): Promise<void> {
    const { commands, store } = this.#core;
    await commands.run((signal) => store.renew(claim, { ttlMs: rememberMs, note: DONE }, signal));
  }

  /** The latest slot that is remembered, or is being run. */
  async latest(): Promise<RememberedSlot | null> {
    const [remembered, running] = await Promise.all([this.#latestRemembered(), this.#running()]);
    if (running !== null && running >= (remembered?.slotMs ?? running)) {
      return { slotMs: running, isDone: remembered?.slotMs === running && remembered.isDone };
    }
    return remembered;
  }

  async #latestRemembered(): Promise<RememberedSlot | null> {
    let latestMs: number | null = null;
    for await (const name of this.#core.listNames(slotPrefix(this.#schedule))) {
      const slotMs = slotIn(name);
      if (slotMs !== null && slotMs > (latestMs ?? Number.NEGATIVE_INFINITY)) latestMs = slotMs;
    }
    if (latestMs === null) return null;
    const claims = await this.#core.read(slotName(this.#schedule, latestMs));
    return { slotMs: latestMs, isDone: claims.some(({ note }) => note === DONE) };
  }

  /** The slot of the run in progress. An extra run has none. */
  async #running(): Promise<number | null> {
    const claims = await this.#core.read(storedName('schedule', this.#schedule));
    const holder = claims.find((claim) => claim.granted);
    const slot = metadataIn(holder?.note ?? null)?.slot;
    const slotMs = typeof slot === 'string' ? Date.parse(slot) : Number.NaN;
    return Number.isNaN(slotMs) ? null : slotMs;
  }
}
