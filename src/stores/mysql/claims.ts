import type { Clock } from '../../clock.ts';
import { HoldfastError, StoreError } from '../../errors.ts';
import type { Batch } from '../shared/batch.ts';
import type { Answer, CallInfo } from '../shared/batch-options.ts';
import type { ConnectionPool } from '../shared/connection-pool.ts';
import { type FailureKind, isSingle, pooledBatch } from '../shared/pooled-batch.ts';
import { between } from '../shared/retry-after.ts';
import type { Connection, Value } from './connection.ts';
import { errorNumberOf, failureOf, isReadOnly, notBegun } from './failure.ts';
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

/** A statement that goes out by itself, and whose rows are the answer. */
export interface SingleStatement {
  readonly text: string;
  readonly values: readonly Value[];
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
/** Deadlock, snapshot too old, to be prepared again: nothing was done, and the next try may succeed. */
const TRY_AGAIN = new Set([1213, 1020, 1615]);
const RETRIES_MAX = 20;
/** Packet too large, data that does not fit: one operation is to blame, and nothing was done. */
const ONE_FAILED = new Set([1153, 1264, 1366, 1406, 3141]);
const MISSING = new Set([1049, 1146]);
/** A row that others keep changing: this many tries follow at once, and further ones after a delay. */
const TRIES_AT_ONCE = 3;
const TRIES_MAX = 60;
const BUSY_MS = { min: 1, max: 30 };

/**
 * Sends operations. One that travels by itself is one statement where it can be; else the rows of
 * all locks are read, changed here and written back.
 */
export function claimsBatch(options: ClaimsOptions): Claims {
  const { clock, pool } = options;
  return pooledBatch<Operation | SingleStatement, unknown>({
    clock,
    label: 'MySQL',
    pool,
    send: async (requests, call) => {
      const connection = pool.take(requests.some(({ isBackground }) => isBackground !== true));
      // The answer may never come, and nothing else can be sent before it.
      call.onAbandoned = () => connection.destroy();
      try {
        const [only] = requests;
        if (only !== undefined && isSingle(only))
          return [{ value: (await connection.run(only.text, only.values)).rows }];
        return await applyAll(requests as readonly Operation[], call, connection, options);
      } catch (error) {
        if (MISSING.has(errorNumberOf(error) ?? 0)) pool.forgetSchema();
        // The name of the server may lead to another one by now.
        if (isReadOnly(error)) pool.replaceAll();
        throw error;
      } finally {
        pool.giveBack(connection);
      }
    },
    failureOf,
    kindOf,
    retriesMax: RETRIES_MAX,
  });
}

/**
 * Reads the rows of all these operations, applies each operation and writes the changed rows. No
 * row is locked in between, so a process that stops there blocks no other. When another process has
 * changed a row meanwhile, everything is done again.
 */
async function applyAll(
  operations: readonly Operation[],
  call: CallInfo,
  connection: Connection,
  { clock, statements, reader, known, onLook }: ClaimsOptions,
): Promise<readonly Answer<unknown>[]> {
  const newVersion = (): string => `${Math.floor(clock.random() * 2 ** 53)}`;
  const [only] = operations;
  if (operations.length === 1 && only?.alone !== undefined) {
    const [text, ...values] = only.alone;
    const { affected, insertId } = await connection.run(text, [newVersion(), ...values]);
    if (affected > 0) return [{ value: only.answer?.(insertId) }];
  }
  const names = [...new Set(operations.map(({ name }) => name))];
  for (let tries = 0; tries < TRIES_AT_ONCE; tries += 1) {
    const rows = await readRows(connection, statements, new Map(names.map((name) => [name, known(name)])));
    const queues = new Map(rows.map((row) => [row.name, new RowQueue(row, reader)]));
    // No caller waits for the answer to a request that was given up by now.
    const answers = operations.map((operation, position) =>
      call.isWanted(position) ? apply(operation, queues.get(operation.name)) : { value: null },
    );
    // In the order of the names, so that no two writes wait for each other's rows.
    const changed = names.flatMap((name) => queues.get(name) ?? []).filter(({ isChanged }) => isChanged);
    if (!(await writeRows(connection, statements, changed, newVersion))) continue;
    for (const queue of queues.values()) onLook(queue);
    return answers;
  }
  return operations.map((_, position) =>
    call.triesOf(position) < TRIES_MAX
      ? { retryMs: between(clock, BUSY_MS) }
      : { error: new StoreError('The lock kept changing', { applied: 'no' }) },
  );
}

/** The claims of a row are not sent again where it is still the known one. */
async function readRows(
  connection: Connection,
  { READ }: Statements,
  known: ReadonlyMap<string, LockRow | undefined>,
): Promise<readonly LockRow[]> {
  const asked = [...known].map(([name, row]) => [name, row?.version ?? null]);
  try {
    const { rows } = await connection.run(READ, [JSON.stringify(asked)]);
    return rows.map(decodeRow).map((row) => {
      const before = known.get(row.name);
      const isKnown = before !== undefined && before.version !== null && before.version === row.version;
      return isKnown ? { ...before, nowUs: row.nowUs, floor: row.floor } : row;
    });
  } catch (error) {
    throw notBegun(error);
  }
}

/** Writes all rows or none. Resolves to false when one of them has changed since it was read. */
async function writeRows(
  connection: Connection,
  { WRITE }: Statements,
  queues: readonly RowQueue[],
  newVersion: () => string,
): Promise<boolean> {
  if (queues.length === 0) return true;
  const written = queues.map((queue) => ({ queue, version: newVersion() }));
  const rows = written.map(({ queue, version }) => encodeRow(queue.row, version));
  try {
    await connection.run(WRITE, [JSON.stringify(rows)]);
  } catch (error) {
    if (errorNumberOf(error) === CHANGED) return false;
    throw error;
  }
  for (const { queue, version } of written) queue.onWritten(version);
  return true;
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

function kindOf(error: unknown): FailureKind {
  const number = errorNumberOf(error) ?? 0;
  if (ONE_FAILED.has(number)) return 'one';
  return TRY_AGAIN.has(number) ? 'again' : null;
}
