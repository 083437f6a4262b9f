import type { Clock, Timer } from '../../clock.ts';
import type { LeaseBatch } from './lease-batch.ts';
import type { Schema } from './schema.ts';

/** The tables are pruned soon after ROWS new rows, at once after ROWS_MANY, and else after a minute. */
const ROWS = 1_000;
const ROWS_MANY = 2_000;
const SOON_MS = 200;
const LATER_MS = 60_000;
/** How many rows `prune` of `migrations/` deletes at most, and how often it is called in a row. */
const STEP = 5_000;
const STEPS_MAX = 10;
/** The tables are vacuumed after this many deleted rows: autovacuum runs only once a minute. */
const VACUUM_ROWS = 2_000;
/**
 * Makes the space of deleted rows reusable, but does not truncate the files: for that the server would
 * wait up to five seconds for the table, and the next statements of this connection with it. For a
 * user that does not own the tables, the server only emits a notice, and autovacuum does the work.
 */
const VACUUM = 'VACUUM (SKIP_LOCKED, TRUNCATE false) holdfast.locks, holdfast.shares, holdfast.waiters';

/** Deletes the rows of unused locks, as often as new rows are created. */
export class Pruner {
  readonly #clock: Clock;
  readonly #batch: LeaseBatch;
  readonly #schema: Schema;
  #timer: Timer | null = null;
  #isSoon = false;
  #isRunning = false;
  #made = 0;
  #deleted = 0;
  #isClosed = false;

  constructor(clock: Clock, batch: LeaseBatch, schema: Schema) {
    this.#clock = clock;
    this.#batch = batch;
    this.#schema = schema;
  }

  /** A claim has created the row of a lock. */
  onNewRow(): void {
    this.#made += 1;
    if (this.#made >= ROWS_MANY) this.#start(0);
    else if (this.#made >= ROWS && !this.#isSoon) this.#start(SOON_MS);
    else if (this.#timer === null) this.#start(LATER_MS);
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  #start(ms: number): void {
    if (this.#isRunning || this.#isClosed) return;
    this.#timer?.cancel();
    this.#isSoon = ms <= SOON_MS;
    if (ms === 0) void this.#run();
    else this.#timer = this.#clock.startTimer(ms, () => void this.#run());
  }

  async #run(): Promise<void> {
    const wasSoon = this.#isSoon;
    this.#timer = null;
    this.#isSoon = false;
    this.#isRunning = true;
    this.#made = 0;
    let sum = 0;
    try {
      for (let step = 0; step < STEPS_MAX; step += 1) {
        const [row] = await this.#ask('SELECT holdfast.prune()::text');
        const deleted = Number(row?.[0] ?? 0);
        sum += deleted;
        if (deleted < STEP) break;
      }
      this.#deleted += sum;
      if (this.#deleted >= VACUUM_ROWS) {
        this.#deleted = 0;
        await this.#ask(VACUUM);
      }
    } catch {
      // The next new rows start it again, and it does not matter when.
    } finally {
      this.#isRunning = false;
    }
    if (this.#made >= ROWS) this.#start(this.#made >= ROWS_MANY ? 0 : SOON_MS);
    // Some rows were in use until a moment ago.
    else if (this.#made > 0 || wasSoon || sum > 0) this.#start(LATER_MS);
  }

  #ask(text: string): ReturnType<LeaseBatch['add']> {
    return this.#batch.add({ text: this.#schema.sql(text), isBackground: true }, undefined);
  }
}
