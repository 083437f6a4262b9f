import type { Clock, Timer } from '../../clock.ts';
import { PruneTimer } from '../shared/prune-timer.ts';
import { between, type Range } from '../shared/retry-after.ts';
import type { LeaseBatch } from './lease-batch.ts';

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

/** How long after an operation this process asks the server to remove dead waiters. */
const FIRST_MS = { min: 6_000, max: 9_000 };
/** A dead waiter that was found is removed by the next call after `reconnect_limit` of `migrations/`. */
const AGAIN_MS = { min: 10_500, max: 12_000 };

/** Runs a statement that no caller waits for. Resolves to the number in its row, if it has one. */
async function run(batch: LeaseBatch, text: string): Promise<number> {
  const [row] = await batch.add({ text, isBackground: true });
  return Number(row?.[0] ?? 0);
}

/** Deletes the rows of unused locks, as often as new rows are created. */
export function pruneTimer(clock: Clock, batch: LeaseBatch): PruneTimer {
  let dead = 0;
  const prune = async (isAfterMany: boolean): Promise<boolean> => {
    let sum = 0;
    for (let step = 0; step < STEPS_MAX; step += 1) {
      const deleted = await run(batch, 'SELECT holdfast.prune()::text');
      sum += deleted;
      if (deleted < STEP) break;
    }
    dead += sum;
    if (dead >= VACUUM_ROWS) {
      dead = 0;
      await run(batch, VACUUM);
    }
    // Some rows were in use until a moment ago.
    return isAfterMany || sum > 0;
  };
  return new PruneTimer(clock, prune);
}

/** While this process uses the store, removes the waiters of dead processes from all queues. */
export function deadWaiterTimer(clock: Clock, batch: LeaseBatch): { onOperation(): void; close(): void } {
  let timer: Timer | null = null;
  let isClosed = false;
  const removeAfter = (delayMs: Range): void => {
    if (timer === null && !isClosed) timer = clock.startTimer(between(clock, delayMs), () => void remove());
  };
  const remove = async (): Promise<void> => {
    // After a failure, the next operation starts the timer again.
    const found = await run(batch, 'SELECT holdfast.remove_dead_waiters()::text').catch(() => 0);
    timer = null;
    if (found > 0) removeAfter(AGAIN_MS);
  };
  return {
    onOperation: () => removeAfter(FIRST_MS),
    close() {
      isClosed = true;
      timer?.cancel();
    },
  };
}
