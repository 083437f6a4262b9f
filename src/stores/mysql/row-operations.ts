import type { Clock } from '../../clock.ts';
import { HoldfastError, StoreError } from '../../errors.ts';
import type { Answer, CallInfo } from '../shared/batch-options.ts';
import { between } from '../shared/retry-after.ts';
import type { RowReading } from './lock-row.ts';
import { type OwnWaiters, RowQueue } from './row-queue.ts';

/** An operation on one lock. */
export interface Operation<Result> {
  readonly name: string;
  /** What it does to the claims of the lock. Throws for a definite no. */
  apply(queue: RowQueue): Result;
  /** No caller waits for it, so it does not keep the process alive. */
  readonly isBackground?: boolean;
}

/** How the rows of one call are read and written. */
export interface RowAccess {
  read(names: readonly string[]): Promise<readonly RowReading[]>;
  /** Writes all rows or none. Resolves to false when one of them has changed since it was read. */
  write(queues: readonly RowQueue[]): Promise<boolean>;
}

export interface RowView {
  readonly own: OwnWaiters;
  /** A lock as an operation has read or left it. */
  onLook(queue: RowQueue): void;
}

/** This many tries follow at once. Further tries follow after a random delay. */
const TRIES_AT_ONCE = 3;
const TRIES_MAX = 60;
const BUSY_MS = { min: 1, max: 30 };

/**
 * Reads the rows of all these operations, applies each operation and writes the changed rows. No
 * row is locked in between, so a process that stops there blocks no other. When another process has
 * changed a row meanwhile, everything is done again.
 */
export async function applyOperations(
  operations: readonly Operation<unknown>[],
  call: CallInfo,
  { clock, access, view }: { readonly clock: Clock; readonly access: RowAccess; readonly view: RowView },
): Promise<readonly Answer<unknown>[]> {
  const names = [...new Set(operations.map(({ name }) => name))];
  for (let tries = 0; tries < TRIES_AT_ONCE; tries += 1) {
    const readings = await access.read(names);
    const queues = new Map(readings.map((reading) => [reading.row.name, new RowQueue(reading, view.own)]));
    // No caller waits for the answer to a request that was given up by now.
    const answers = operations.map((operation, position) =>
      call.isWanted(position) ? apply(operation, queues.get(operation.name)) : { value: null },
    );
    // In the order of the names, so that no two writes wait for each other's rows.
    const changed = names.flatMap((name) => queues.get(name) ?? []).filter(({ isChanged }) => isChanged);
    if (changed.length > 0 && !(await access.write(changed))) continue;
    for (const queue of queues.values()) view.onLook(queue);
    return answers;
  }
  return operations.map((_, position) =>
    call.triesOf(position) < TRIES_MAX
      ? { retryMs: between(clock, BUSY_MS) }
      : { error: new StoreError('The lock kept changing', { applied: 'no' }) },
  );
}

function apply(operation: Operation<unknown>, queue: RowQueue | undefined): Answer<unknown> {
  if (queue === undefined) return { error: new StoreError('The server returned no row', { applied: 'no' }) };
  try {
    return { value: operation.apply(queue) };
  } catch (error) {
    if (error instanceof HoldfastError) return { error };
    throw error;
  }
}
