import type { Core } from '../core.ts';
import { EXCLUSIVE } from '../primitives/mutex.ts';
import type { ClaimRef, StoredClaim } from '../store/store.ts';
import { DONE, slotIn, slotName, slotPrefix } from '../use.ts';
import { backoff, pause } from '../util/backoff.ts';
import { isStoreError } from '../util/error-code.ts';

/** The note of a slot's claim until its run has ended. */
const STARTED = '{"schedule":"started"}';
const RETRY = { min: 50, max: 1_000 };

/** What the claim of a slot says about its run. */
interface RememberedSlot {
  readonly slotMs: number;
  readonly isDone: boolean;
}

interface TakeOptions {
  readonly rememberMs: number;
  readonly note: 'started' | 'done';
  /** Whether to give up; called after each failure of the store, and after each refusal. */
  readonly shouldGiveUp: () => boolean;
  /** Ends the pause before the next command. */
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

  /** Whether a process has taken this slot's claim, other than by the claim of that id. */
  async isTaken(slotMs: number, exceptId?: string): Promise<boolean> {
    return (await this.#read(slotMs)).some(({ granted, id }) => granted && id !== exceptId);
  }

  /** Whether the run of this slot has ended. */
  async isDone(slotMs: number): Promise<boolean> {
    return (await this.#read(slotMs)).some(({ note }) => note === DONE);
  }

  #read(slotMs: number): Promise<readonly StoredClaim[]> {
    return this.#core.read(slotName(this.#schedule, slotMs));
  }

  /**
   * Takes the slot's claim. `null` when another process has it, or when the store did not answer
   * before `shouldGiveUp` returned true. After a lost reply, the claim is sent again with the same id;
   * so it is after a refusal when no process has the slot: processes that claim at the same moment may
   * split the votes of several nodes. A claim of unknown outcome is not cleaned up: it may exist
   * without a run, and its slot is then missed.
   */
  async take(slotMs: number, options: TakeOptions): Promise<ClaimRef | null> {
    const { clock, commands, ids, record, store } = this.#core;
    const ref = { name: slotName(this.#schedule, slotMs), id: ids.next() };
    const note = options.note === 'done' ? DONE : STARTED;
    const fixed = { mode: EXCLUSIVE, ttlMs: options.rememberMs, wait: false, note };
    let isRefused = false;
    for (let attempt = 0; ; attempt += 1) {
      try {
        if (isRefused && (await this.isTaken(slotMs, ref.id))) return null;
        const request = { ...ref, ...fixed, fenceAbove: record.fenceSeen };
        const { granted } = await commands.run((signal) => store.claim(request, signal));
        if (granted) return ref;
        isRefused = true;
      } catch (error) {
        if (!isStoreError(error)) throw error;
      }
      // Also before the slot is read: votes that other processes take back are gone by then.
      await pause(clock, backoff(clock, attempt, RETRY), options.signal && { signal: options.signal });
      if (options.shouldGiveUp()) return null;
    }
  }

  /** The run of a slot that was taken at its start has ended. Only `last()` depends on it. */
  async finish(claim: ClaimRef, rememberMs: number): Promise<void> {
    const { commands, store } = this.#core;
    await commands.run((signal) => store.renew(claim, { ttlMs: rememberMs, note: DONE }, signal));
  }

  /** The latest slot that is remembered. `runningMs`: the slot of the run in progress. */
  async latest(runningMs: number | null): Promise<RememberedSlot | null> {
    let latestMs: number | null = null;
    for await (const name of this.#core.listNames(slotPrefix(this.#schedule))) {
      const slotMs = slotIn(name);
      if (slotMs !== null && slotMs > (latestMs ?? Number.NEGATIVE_INFINITY)) latestMs = slotMs;
    }
    const isDone = latestMs !== null && (await this.isDone(latestMs));
    // A later slot that was taken while that run is in progress, and is not done, was missed.
    if (runningMs !== null && (latestMs === null || runningMs > latestMs || !isDone))
      return { slotMs: runningMs, isDone: false };
    return latestMs === null ? null : { slotMs: latestMs, isDone };
  }
}
