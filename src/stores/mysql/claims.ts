import type { Clock } from '../../clock.ts';
import { HoldfastError, StoreError } from '../../errors.ts';
import type { Batch } from '../shared/batch.ts';
import type { Answer } from '../shared/batch-options.ts';
import type { ConnectionPool } from '../shared/connection-pool.ts';
import { busyAnswer, isSingle, pooledBatch, type SingleStatement } from '../shared/pooled-batch.ts';
import type { Connection, Value } from './connection.ts';
import { errorNumberOf, failures } from './failure.ts';
import { decodeRow, encodeRow, type LockRow } from './lock-row.ts';
import { type Reader, RowQueue } from './queue.ts';
import type { Statements } from './statements.ts';

/** An operation on one lock. Those of a tick read and write their rows together. */
export interface Operation<Answer = unknown> {
  readonly name: string;
  /** What it does to the claims of the lock. Throws for a definite no. */
  apply(queue: RowQueue): Answer;
  /** Does the same in one statement, if no other claim is in the way. The version comes first. */
  readonly alone?: readonly [text: string, ...values: Value[]] | undefined;
  /** The answer of that statement, if it has changed the row. */
  answer?(insertId: bigint): Answer;
  /** No caller waits for it, so it does not keep the process alive. */
  readonly isBackground?: boolean;
}

export type Claims = Batch<Operation | SingleStatement, unknown>;

export interface ClaimsOptions {
  readonly clock: Clock;
  readonly pool: ConnectionPool<Connection>;
  readonly statements: Statements;
  readonly reader: Reader;
  /** The row as this process has last read it, if it watches the lock. */
  known(name: string): LockRow | undefined;
  /** A lock as an operation has read or left it. */
  onLook(queue: RowQueue): void;
}

/** A number is out of range: see `WRITE`. */
const CHANGED = 1690;
const RETRIES_MAX = 20;

/**
 * Sends operations. One that travels by itself is one statement where it can be; else the rows of
 * all locks are read, changed here and written back. No row is locked in between, so a process that
 * stops there blocks no other. When another process has changed a row meanwhile, everything is done
 * again.
 */
export function claimsBatch(options: ClaimsOptions): Claims {
  const { clock, pool, onLook } = options;
  return pooledBatch<Connection, Operation | SingleStatement, unknown>({
    clock,
    pool,
    async send(connection, requests, call) {
      const [only] = requests;
      if (only !== undefined && isSingle(only))
        return [{ value: (await connection.run(only.text, only.values)).rows }];
      if (requests.length === 1 && only?.alone !== undefined && call.triesOf(0) === 0) {
        const [text, ...values] = only.alone;
        const { affected, insertId } = await connection.run(text, [newVersion(clock), ...values]);
        if (affected > 0) return [{ value: only.answer?.(insertId) }];
      }
      const operations = requests as readonly Operation[];
      const names = [...new Set(operations.map(({ name }) => name))];
      const queues = await readQueues(connection, options, names);
      // No caller waits for the answer to a request that was given up by now.
      const answers = operations.map((operation, position) =>
        call.isWanted(position) ? apply(operation, queues.get(operation.name)) : { value: null },
      );
      // In the order of the names, so that no two writes wait for each other's rows.
      const inOrder = names.flatMap((name) => queues.get(name) ?? []);
      if (!(await writeQueues(connection, options, inOrder)))
        return operations.map((_, position) => busyAnswer(clock, failures.label, call.triesOf(position)));
      for (const queue of inOrder) onLook(queue);
      return answers;
    },
    failures,
    retriesMax: RETRIES_MAX,
  });
}

/** The claims of a row are not sent again where it is still the known one. */
async function readQueues(
  connection: Connection,
  { statements, reader, known }: ClaimsOptions,
  names: readonly string[],
): Promise<ReadonlyMap<string, RowQueue>> {
  const before = new Map(names.map((name) => [name, known(name)]));
  const asked = names.map((name) => [name, before.get(name)?.version ?? null]);
  try {
    const { rows } = await connection.run(statements.READ, [JSON.stringify(asked)]);
    const queues = rows.map(decodeRow).map((row) => {
      const same = before.get(row.name);
      const isSame = same !== undefined && same.version !== null && same.version === row.version;
      const { name, nowUs, floor } = row;
      return [name, new RowQueue(isSame ? { ...same, nowUs, floor } : row, reader)] as const;
    });
    return new Map(queues);
  } catch (error) {
    throw failures.notBegun(error);
  }
}

/** Writes all changed rows or none. Resolves to false when one of them has changed since it was read. */
async function writeQueues(
  connection: Connection,
  { clock, statements }: ClaimsOptions,
  queues: readonly RowQueue[],
): Promise<boolean> {
  const written = queues
    .filter(({ isChanged }) => isChanged)
    .map((queue) => ({ queue, version: newVersion(clock) }));
  if (written.length === 0) return true;
  const rows = written.map(({ queue, version }) => encodeRow(queue.row, version));
  try {
    await connection.run(statements.WRITE, [JSON.stringify(rows)]);
  } catch (error) {
    if (errorNumberOf(error) === CHANGED) return false;
    throw error;
  }
  for (const { queue, version } of written) queue.onWritten(version);
  return true;
}

function newVersion(clock: Clock): string {
  return `${Math.floor(clock.random() * 2 ** 53)}`;
}

function apply(operation: Operation, queue: RowQueue | undefined): Answer<unknown> {
  if (queue === undefined) return { error: new StoreError('The server returned no row', { applied: 'no' }) };
  try {
    return { value: operation.apply(queue) };
  } catch (error) {
    if (error instanceof HoldfastError) return { error };
    throw error;
  }
}
