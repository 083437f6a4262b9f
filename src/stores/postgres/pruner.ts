import type { Clock } from '../../clock.ts';
import { PruneTimer } from '../shared/prune-timer.ts';
import type { Row } from './driver-connection.ts';
import type { LeaseBatch } from './lease-batch.ts';

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
export function pruneTimer(clock: Clock, batch: LeaseBatch): PruneTimer {
  const ask = (text: string): Promise<readonly Row[]> => batch.add({ text, isBackground: true });
  let dead = 0;
  const prune = async (isAfterMany: boolean): Promise<boolean> => {
    let sum = 0;
    for (let step = 0; step < STEPS_MAX; step += 1) {
      const [row] = await ask('SELECT holdfast.prune()::text');
      const deleted = Number(row?.[0] ?? 0);
      sum += deleted;
      if (deleted < STEP) break;
    }
    dead += sum;
    if (dead >= VACUUM_ROWS) {
      dead = 0;
      await ask(VACUUM);
    }
    // Some rows were in use until a moment ago.
    return isAfterMany || sum > 0;
  };
  return new PruneTimer({ clock, rowsForImmediatePrune: ROWS_MANY, prune });
}
