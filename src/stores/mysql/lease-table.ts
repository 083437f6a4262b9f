import type { Clock } from '../../clock.ts';
import type { DiagnoseContext, Finding } from '../../store/finding.ts';
import type { ClaimRef, ClaimRequest, RenewChange } from '../../store/store.ts';
import { ConnectionPool } from '../shared/connection-pool.ts';
import { Connection, type Connector, type Row } from './connection.ts';
import { type DiagnosedStore, diagnose } from './diagnose.ts';
import { failureOf } from './failure.ts';
import { type LeaseBatch, leaseBatch, type SingleStatement } from './lease-batch.ts';
import { claimOperation, readingOf, releaseOperation, renewOperation } from './lease-statement.ts';
import type { RowReading } from './lock-row.ts';
import { isMigrated, migrate } from './migrate.ts';
import type { KnownRow } from './poller.ts';
import { PAGE_ROWS, Pruner } from './pruner.ts';
import type { Operation, RowView } from './row-operations.ts';
import type { RowTable } from './row-server.ts';
import type { Schema } from './schema.ts';
import { type Statements, statementsFor } from './statements.ts';

export interface LeaseTableOptions {
  readonly clock: Clock;
  readonly schema: Schema;
  readonly migrates: boolean;
  readonly connections: number;
  readonly queueMax: number;
}

/** The table `holdfast_locks` of `migrations/`. */
export class LeaseTable implements RowTable {
  readonly kind = 'mysql';
  readonly label = 'MySQL';
  /** Far below where the server's numbers end. */
  readonly fenceMax = 2n ** 62n;
  readonly #diagnosed: DiagnosedStore;
  readonly #queueMax: number;
  readonly #statements: Statements;
  readonly #pool: ConnectionPool<Connection>;
  readonly #batch: LeaseBatch;
  readonly #pruner: Pruner;

  constructor(connector: Connector, view: RowView, options: LeaseTableOptions) {
    const { clock, schema, migrates, connections, queueMax } = options;
    this.#diagnosed = { connector, schema, migrates, connections };
    this.#queueMax = queueMax;
    this.#statements = statementsFor(schema);
    this.#pool = new ConnectionPool({
      clock,
      max: connections,
      schema: {
        migrates,
        isMigrated: (connection) => isMigrated(connection, schema),
        migrate: (connection) => migrate(connection, schema),
        missing: () => schema.missing(),
      },
      connect: (onClose, signal) => Connection.open(connector, clock, onClose, { signal }),
      failureOf,
    });
    this.#batch = leaseBatch({
      clock,
      pool: this.#pool,
      statements: this.#statements,
      view: {
        own: view.own,
        onLook: (queue) => {
          if (queue.isNew && queue.isChanged) this.#pruner.onNewRow();
          view.onLook(queue);
        },
      },
    });
    this.#pruner = new Pruner({
      clock,
      statements: this.#statements,
      readPage: (after) => this.#readPage('', after, true),
      run: (text, value) => this.#ask({ text, values: [value], isBackground: true }, undefined),
    });
  }

  assertOpen(): void {
    this.#pool.assertOpen();
  }

  claim(request: ClaimRequest, isContended: boolean) {
    return claimOperation(request, this.#queueMax, isContended);
  }

  renew(claim: ClaimRef, change: RenewChange) {
    return renewOperation(claim, change);
  }

  release(claim: ClaimRef, isContended: boolean) {
    return releaseOperation(claim, isContended);
  }

  run<Answer>(operation: Operation<Answer>, signal: AbortSignal | undefined): Promise<Answer> {
    return this.#batch.add(operation, signal) as Promise<Answer>;
  }

  async read(known: readonly KnownRow[], signal?: AbortSignal): Promise<readonly RowReading[]> {
    const statement = { text: this.#statements.READ, values: [JSON.stringify(known)] };
    return (await this.#ask({ ...statement, isBackground: signal === undefined }, signal)).map(readingOf);
  }

  async *list(prefix: string, signal: AbortSignal | undefined): AsyncIterable<RowReading> {
    for (let after = ''; ; ) {
      const page = await this.#readPage(prefix, after, false, signal);
      yield* page;
      if (page.length < PAGE_ROWS) return;
      after = page.at(-1)?.row.name ?? '';
    }
  }

  async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    this.assertOpen();
    return await diagnose(this.#diagnosed, context);
  }

  async close(): Promise<void> {
    this.#pruner.close();
    await this.#pool.close();
  }

  async #readPage(
    prefix: string,
    after: string,
    isBackground: boolean,
    signal?: AbortSignal,
  ): Promise<readonly RowReading[]> {
    const values = [after, prefix, `${Buffer.byteLength(prefix)}`, prefix];
    return (await this.#ask({ text: this.#statements.LIST, values, isBackground }, signal)).map(readingOf);
  }

  #ask(statement: SingleStatement, signal: AbortSignal | undefined): Promise<readonly Row[]> {
    return this.#batch.add(statement, signal) as Promise<readonly Row[]>;
  }
}
