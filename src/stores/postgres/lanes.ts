import type { Clock, Timer } from '../../clock.ts';
import { HoldfastError, StoreError } from '../../errors.ts';
import { onAbort } from '../../hold/abort.ts';
import { Connection, closed } from './connection.ts';
import { failureOf } from './failure.ts';
import { isMigrated, migrate } from './migrate.ts';
import type { Schema } from './schema.ts';
import type { Dial, Row, Statement } from './wire.ts';

export interface LaneOptions {
  readonly clock: Clock;
  readonly schema: Schema;
  /** Most connections at once. */
  readonly max: number;
  /** Make or bring up to date what is missing in the schema. */
  readonly migrates: boolean;
}

/** Told of a connection that is free, and has to give it back, or why there is none. */
type Taker = (connection: Connection | null, refusal: HoldfastError | null) => void;

/** A connection that nobody has needed for so long is closed. */
const IDLE_MS = 30_000;

/**
 * Set once where the connection is ours to the end: plans that do when a small table has grown, each step seeing what others have committed, and no grant that a crash of
 * the server can undo. Behind a pooler, `batch_anywhere` does what it can with each call.
 */
const SET_UP = `SELECT set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false),
  set_config('plan_cache_mode', 'force_generic_plan', false), set_config('jit', 'off', false),
  set_config('default_transaction_isolation', 'read committed', false),
  CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END`;

/** The few connections that the statements of a store go over, opened when there is more to do than those that are open can. */
export class Lanes {
  readonly #dial: Dial;
  readonly #options: LaneOptions;
  readonly #idle: Connection[] = [];
  readonly #takers: Taker[] = [];
  readonly #all = new Set<Connection>();
  /** Set up for a schema that is no more. */
  readonly #stale = new Set<Connection>();
  #opening = 0;
  #isMigrated = false;
  #isClosed = false;
  #idleTimer: Timer | null = null;

  constructor(dial: Dial, options: LaneOptions) {
    this.#dial = dial;
    this.#options = options;
  }

  /** A free connection, if there is one just now. */
  tryTake(): Connection | null {
    const connection = this.#idle.pop() ?? null;
    connection?.setKeepAlive(true);
    return connection;
  }

  /** Calls back when a connection is free. */
  take(taker: Taker): void {
    if (this.#isClosed) {
      taker(null, closed());
      return;
    }
    const connection = this.tryTake();
    if (connection !== null) {
      taker(connection, null);
      return;
    }
    this.#takers.push(taker);
    if (this.#all.size + this.#opening < this.#options.max) void this.#open();
  }

  giveBack(connection: Connection): void {
    if (this.#isClosed || !connection.isOpen || this.#stale.delete(connection)) {
      this.#remove(connection);
      void connection.close();
      return;
    }
    const taker = this.#takers.shift();
    if (taker !== undefined) {
      taker(connection, null);
      return;
    }
    connection.setKeepAlive(false);
    this.#idle.push(connection);
    this.#closeIdleLater();
  }

  /** Runs one statement. When the signal aborts, the connection it is on is given up. */
  async run(statement: Statement, signal: AbortSignal | undefined): Promise<readonly Row[]> {
    const connection = await new Promise<Connection>((resolve, reject) => {
      this.take((free, refusal) => (free === null ? reject(refusal) : resolve(free)));
    });
    try {
      if (signal?.aborted === true)
        throw new StoreError('PostgreSQL: not sent within the time limit', { applied: 'no' });
      const stop = signal === undefined ? () => {} : onAbort(signal, () => connection.destroy());
      return await connection.run(statement).finally(stop);
    } finally {
      this.giveBack(connection);
    }
  }

  assertOpen(): void {
    if (this.#isClosed) throw closed();
  }

  /** What is in the schema is not what it was: whoever connects next looks again. */
  forgetSchema(): void {
    this.#isMigrated = false;
    for (const connection of this.#all) this.#stale.add(connection);
    for (const connection of this.#idle.splice(0)) this.giveBack(connection);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#idleTimer?.cancel();
    this.#refuse(closed());
    await Promise.all([...this.#all].map((connection) => connection.close()));
    this.#all.clear();
  }

  async #open(): Promise<void> {
    this.#opening += 1;
    try {
      let connection: Connection | null = null;
      connection = await Connection.open(this.#dial, {
        clock: this.#options.clock,
        onClose: () => connection !== null && this.#remove(connection),
      });
      this.#all.add(connection);
      await this.#setUp(connection);
      this.#opening -= 1;
      this.giveBack(connection);
    } catch (error) {
      this.#opening -= 1;
      this.#refuse(error instanceof HoldfastError ? error : failureOf(error));
    }
  }

  async #setUp(connection: Connection): Promise<void> {
    try {
      if (!this.#isMigrated && !(await isMigrated(connection, this.#options.schema))) {
        if (!this.#options.migrates) throw this.#options.schema.missing();
        await migrate(connection, this.#options.schema);
      }
      this.#isMigrated = true;
      if (connection.isDirect) await connection.run({ text: SET_UP });
    } catch (error) {
      this.#all.delete(connection);
      connection.destroy();
      throw error;
    }
  }

  /** Those who wait are told, unless there is another connection that they may yet get. */
  #refuse(refusal: HoldfastError): void {
    if (!this.#isClosed && this.#all.size > this.#idle.length) return;
    for (const taker of this.#takers.splice(0)) taker(null, refusal);
  }

  #remove(connection: Connection): void {
    this.#all.delete(connection);
    this.#stale.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
    if (this.#takers.length > 0 && this.#all.size + this.#opening < this.#options.max && !this.#isClosed)
      void this.#open();
  }

  #closeIdleLater(): void {
    this.#idleTimer?.cancel();
    this.#idleTimer = this.#options.clock.startTimer(IDLE_MS, () => {
      for (const connection of this.#idle.splice(0)) {
        this.#all.delete(connection);
        void connection.close();
      }
    });
  }
}
