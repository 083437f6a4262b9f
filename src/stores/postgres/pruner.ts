import type { Clock } from '../../clock.ts';
import { PruneTimer } from '../shared/prune-timer.ts';
import type { LeaseBatch } from './lease-batch.ts';
import type { Schema } from './schema.ts';

/** The tables are pruned at once after this many new rows. */
const ROWS_MANY = 2_000;
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
  readonly #batch: LeaseBatch;
  readonly #schema: Schema;
  readonly #timer: PruneTimer;
  #deleted = 0;

  constructor(clock: Clock, batch: LeaseBatch, schema: Schema) {
    this.#batch = batch;
    this.#schema = schema;
    this.#timer = new PruneTimer({
      clock,
      rowsForImmediatePrune: ROWS_MANY,
      prune: (isAfterMany) => this.#prune(isAfterMany),
    });
  }

  /** A claim has created the row of a lock. */
  onNewRow(): void {
    this.#timer.onNewRow();
  }

  close(): void {
    this.#timer.close();
  }

  async #prune(isAfterMany: boolean): Promise<boolean> {
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
    }
    // Some rows were in use until a moment ago.
    return isAfterMany || sum > 0;
  }

  #ask(text: string): ReturnType<LeaseBatch['add']> {
    return this.#batch.add({ text: this.#schema.sql(text), isBackground: true }, undefined);
  }
}
