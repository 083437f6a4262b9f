import type { Clock } from '../../clock.ts';
import { HoldfastError, StoreError } from '../../errors.ts';
import { Commands } from '../../util/command.ts';
import type { Batch } from '../shared/batch.ts';
import type { Answer } from '../shared/batch-options.ts';
import { ConnectionPool } from '../shared/connection-pool.ts';
import { type PooledBatchOptions, pooledBatch, type SingleStatement } from '../shared/pooled-batch.ts';
import { Connection, type Row } from './connection.ts';
import type { DiagnosedStore } from './diagnose.ts';
import { failures } from './failure.ts';
import { decodeRow, encodeRow } from './lock-row.ts';
import { Poller } from './poller.ts';
import { RowQueue } from './queue.ts';
import type { Schema } from './schema.ts';
import { READ, WRITE } from './statements.ts';

/** An operation on one lock. Those of a tick read and write their rows together. */
export interface Operation<Answer = unknown> {
  readonly name: string;
  /** What it does to the claims of the lock. Throws for a definite no. */
  apply(queue: RowQueue): Answer;
  /** Does the same in one statement, if no other claim is in the way. The version comes first. */
  readonly alone?: readonly [text: string, ...values: string[]] | undefined;
  /** The answer of that statement, if it has changed the row. */
  answer?(fence: bigint): Answer;
  /** No caller waits for it, so it does not keep the process alive. */
  readonly isBackground?: boolean;
}

type Request = Operation | SingleStatement;
type Send = PooledBatchOptions<Connection, Request, unknown>['send'];

/** What a statement that changes rows answers: how many rows it found, and `LAST_INSERT_ID(…)`. */
type Changes = Readonly<Record<'affectedRows' | 'insertId', number | string>>;

/** On a silent connection a poll must be given up before the holds whose renewals share it are lost. */
const POLL_LIMIT_MS = 1_000;

/**
 * The claims of all locks. An operation that travels by itself is one statement where it can be; else
 * the rows of all locks are read, changed here and written back. No row is locked in between, so a
 * process that stops there blocks no other. When another process has changed a row meanwhile,
 * everything is done again.
 */
export class Claims {
  readonly poller: Poller;
  readonly pool: ConnectionPool<Connection>;
  readonly #clock: Clock;
  readonly #schema: Schema;
  readonly #onNewRow: () => void;
  readonly #batch: Batch<Request, unknown>;

  constructor(clock: Clock, { factory, schema, connections }: DiagnosedStore, onNewRow: () => void) {
    this.#clock = clock;
    this.#onNewRow = onNewRow;
    this.#schema = schema;
    const polls = new Commands(clock, POLL_LIMIT_MS);
    this.poller = new Poller(clock, (name) =>
      polls.run((signal) => this.run({ name, apply: (queue) => queue.keep(), isBackground: true }, signal)),
    );
    this.pool = new ConnectionPool({
      clock,
      max: connections,
      schema,
      connect: (onClose, signal) => Connection.open(factory, { clock, onClose, signal }),
      notBegun: failures.notBegun,
    });
    this.#batch = pooledBatch({ clock, pool: this.pool, send: this.#send, failures });
  }

  run<Answer>(operation: Operation<Answer>, signal?: AbortSignal): Promise<Answer> {
    return this.#batch.add(operation, signal) as Promise<Answer>;
  }

  query(statement: SingleStatement, signal?: AbortSignal): Promise<readonly Row[]> {
    return this.#batch.add(statement, signal) as Promise<readonly Row[]>;
  }

  readonly #send: Send = async (connection, requests, call) => {
    const [only] = requests;
    if (only !== undefined && 'text' in only)
      return [{ value: await this.#run(connection, only.text, ...(only.values ?? [])) }];
    const isAlone = requests.length === 1 && call.triesOf(0) === 0;
    // While a claim of this process waits, the row has not expired, so the statement would find nothing to
    // change.
    if (isAlone && only?.alone !== undefined && this.poller.rowOf(only.name) === undefined) {
      const [text, ...values] = only.alone;
      const found = await this.#run<Changes>(connection, text, this.#newVersion(), ...values);
      if (Number(found.affectedRows) > 0) return [{ value: only.answer?.(BigInt(found.insertId)) }];
    }
    const operations = requests as readonly Operation[];
    const queues = await this.#read(connection, [...new Set(operations.map(({ name }) => name))]);
    // No caller waits for the answer to a request that was given up by now.
    const answers = operations.map((operation, position) =>
      call.isWanted(position) ? apply(operation, queues.get(operation.name)) : { value: null },
    );
    const changed = [...queues.values()].filter(({ row, was }) => row.version !== was);
    if (changed.length > 0) {
      const rows = changed.map(({ row, was }) => encodeRow(row, was));
      await this.#run(connection, WRITE, JSON.stringify(rows));
    }
    for (const { was } of changed) if (was === null) this.#onNewRow();
    for (const queue of queues.values()) this.poller.onRead(queue);
    return answers;
  };

  /** In the order of the names. The claims of a row are not sent again where it is still the known one. */
  async #read(connection: Connection, names: readonly string[]): Promise<ReadonlyMap<string, RowQueue>> {
    const known = new Map(names.map((name) => [name, this.poller.rowOf(name)]));
    const asked = names.map((name) => [name, known.get(name)?.version ?? null]);
    try {
      const rows = await this.#run(connection, READ, JSON.stringify(asked));
      const read = new Map(rows.map(decodeRow).map((row) => [row.name, row]));
      const queues = names.flatMap((name) => {
        const [same, row] = [known.get(name), read.get(name)];
        if (row === undefined) return [];
        const { version, nowUs, floor } = row;
        const current = same?.version === version ? { ...same, nowUs, floor } : row;
        return [[name, new RowQueue(current, this.#newVersion(), this.poller.isWaiting)] as const];
      });
      return new Map(queues);
    } catch (error) {
      throw failures.notBegun(error);
    }
  }

  #run<Answer = readonly Row[]>(connection: Connection, text: string, ...values: (string | null)[]) {
    return connection.run<Answer>({ text: this.#schema.sql(text), values });
  }

  #newVersion(): string {
    return `${Math.floor(this.#clock.random() * 2 ** 53)}`;
  }
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
