import type { Clock } from '../../../clock.ts';
import { StoreError } from '../../../errors.ts';
import type { Session } from './session.ts';

/** How many more locks a session may take before it looks again. */
const STEP = 128;
/** The server's table is shared with everybody else's locks of every kind; when it is full, nobody can even connect. */
const SHARE = 3 / 4;
const LOOK_AGAIN_MS = 1_000;

/** Keeps this process, together with all others, from filling the server's table of locks. */
export class Budget {
  readonly #clock: Clock;
  readonly #allowances = new WeakMap<Session, number>();
  #look: Promise<void> | null = null;
  #refusedUntilMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  isWithin(session: Session): boolean {
    return session.locks < (this.#allowances.get(session) ?? STEP);
  }

  /** Looks how full the table is. Rejects with a `StoreError` of `applied: 'no'` when there is no room for more of ours. */
  async extend(session: Session): Promise<void> {
    if (this.#clock.monotonicMs() < this.#refusedUntilMs) throw full(session);
    this.#look ??= this.#extend(session).finally(() => {
      this.#look = null;
    });
    await this.#look;
  }

  async #extend(session: Session): Promise<void> {
    const all = await session.countAll();
    if (all + STEP > session.capacity * SHARE) {
      this.#refusedUntilMs = this.#clock.monotonicMs() + LOOK_AGAIN_MS;
      throw full(session);
    }
    this.#allowances.set(session, session.locks + STEP);
  }
}

function full({ capacity }: Session): StoreError {
  return new StoreError(
    `PostgreSQL: its table of ${capacity} locks is nearly full, and once it is, nobody can connect. Raise max_locks_per_transaction, hold fewer locks, or use postgresLeaseStore`,
    { applied: 'no' },
  );
}
