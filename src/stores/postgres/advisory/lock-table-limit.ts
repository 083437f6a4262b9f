import type { Clock } from '../../../clock.ts';
import { StoreError } from '../../../errors.ts';
import type { Session } from './session.ts';
import { SharedPromise } from './shared-promise.ts';

/** How many more locks a session may take before it counts again. */
const STEP = 128;
/**
 * The share of the server's lock table that may be used. The table has the locks of all programs, and
 * when it is full, no program can connect.
 */
const SHARE = 3 / 4;
const LOOK_AGAIN_MS = 1_000;

/** How many entries of the lock table may be used, and in steps of how many they are counted. */
export function roomFor(capacity: number): { readonly max: number; readonly step: number } {
  return { max: Math.floor(capacity * SHARE), step: STEP };
}

/** Keeps this process, together with all others, from filling the server's lock table. */
export class LockTableLimit {
  readonly #clock: Clock;
  readonly #allowances = new WeakMap<Session, number>();
  #look: SharedPromise<void> | null = null;
  #refusedUntilMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `locks`: how many the session has now, not counting their companions. */
  isWithin(session: Session, locks: number): boolean {
    return locks < (this.#allowances.get(session) ?? STEP);
  }

  /**
   * Counts the locks in the table. Rejects with a `StoreError` of `applied: 'no'` when there is no
   * room for more.
   */
  async extend(session: Session, locks: number, signal: AbortSignal | undefined): Promise<void> {
    if (this.#clock.monotonicMs() < this.#refusedUntilMs) throw full(session);
    this.#look ??= new SharedPromise(
      this.#extend(session, locks).finally(() => {
        this.#look = null;
      }),
    );
    await this.#look.wait(signal);
  }

  async #extend(session: Session, locks: number): Promise<void> {
    const all = await session.countAll();
    if (all + STEP > roomFor(session.capacity).max) {
      this.#refusedUntilMs = this.#clock.monotonicMs() + LOOK_AGAIN_MS;
      throw full(session);
    }
    this.#allowances.set(session, locks + STEP);
  }
}

function full({ capacity }: Session): StoreError {
  return new StoreError(
    `PostgreSQL: its table of ${capacity} locks is nearly full. When it is full, no program can connect. ` +
      'Raise max_locks_per_transaction, hold fewer locks, or use postgresLeaseStore',
    { applied: 'no' },
  );
}
