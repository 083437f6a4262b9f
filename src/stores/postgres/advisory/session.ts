import type { Clock, Timer } from '../../../clock.ts';
import { StoreError, UnsupportedError } from '../../../errors.ts';
import { onAbort } from '../../../util/abort.ts';
import { Batch } from '../../shared/batch.ts';
import type { Answer, Send } from '../../shared/batch-options.ts';
import { Connection } from '../connection.ts';
import type { ConnectionFactory, Row, Statement } from '../driver-connection.ts';
import { failureOf, gaveUp, notBegun, notSent } from '../failure.ts';
import { hashText } from './hash.ts';
import { OURS } from './key-parameters.ts';
import { CHANNEL, type Op, statementOf } from './statement.ts';

/**
 * For how long the session certainly has its locks, counted from the send of a statement that was
 * answered. The server received that statement later than it was sent, and frees the locks of a silent
 * session SILENCE_MS after that, so this time must be shorter.
 */
export const TRUST_MS = 8_000;
const SILENCE_MS = 10_000;
/** The limit of a statement while nothing is held: a dead connection can be given up sooner. */
const LIMIT_UNUSED_MS = 3_000;
/** How often a pending statement is checked. */
const WATCH_EVERY_MS = 1_000;
/** The most operations in one statement. */
const BATCH_MAX = 256;
/** Not only ASCII, so that a database in another encoding gives another hash. */
const PROBE = 'holdfast §';

/**
 * Settings of this session. Limits that the user has set for waits or idle sessions must not end
 * it, and a NOTIFY need not wait for the disk.
 */
const SETTINGS: Readonly<Record<string, string>> = {
  tcp_keepalives_idle: '6',
  tcp_keepalives_interval: '2',
  tcp_keepalives_count: '2',
  tcp_user_timeout: String(SILENCE_MS),
  idle_session_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  transaction_timeout: '0',
  statement_timeout: '0',
  lock_timeout: '0',
  synchronous_commit: 'off',
  client_min_messages: 'error',
};

/** Skips the settings that this version of PostgreSQL does not have. */
const SET = `SELECT set_config(name, setting, false)
FROM json_each_text($1::text::json) AS wanted (name, setting)
WHERE EXISTS (SELECT FROM pg_settings AS known WHERE known.name = wanted.name)`;

const LOOK = `SELECT pg_backend_pid()::text, hashtextextended($1::text, 0)::text,
  (current_setting('max_locks_per_transaction')::int8 * (current_setting('max_connections')::int8
    + current_setting('max_prepared_transactions')::int8))::text,
  pg_try_advisory_lock_shared($2::text::int8)::text`;

/** How many advisory locks the session has. A new session has none. */
const UNUSED = `SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()`;

const NAME = "SELECT pg_backend_pid()::text, set_config('application_name', $1::text, false)";

const COUNT = "SELECT pg_backend_pid()::text, count(*)::text FROM pg_locks WHERE locktype = 'advisory'";

export interface SessionOptions {
  readonly clock: Clock;
  /** Ends the opening of the session. */
  readonly signal: AbortSignal;
  onNotification(channel: string, payload: string): void;
  /** Called once, when the session has ended and all its locks are lost. */
  onLost(): void;
}

/** One connection to the server, and the locks that it has. They are lost when it ends. */
export class Session {
  /** How many locks fit into the server's lock table. */
  readonly capacity: number;
  /** Whether `hashText` computes the same hashes as the server. */
  readonly hashesAlike: boolean;
  /** How many claims are granted. */
  holds = 0;
  isNamed = false;
  readonly #connection: Connection;
  readonly #options: SessionOptions;
  /**
   * One statement at a time. Operations of one tick, and those that arrive while a statement is
   * pending, share the next statement. An operation that was sent is never abandoned: its answer
   * decides which locks this process has.
   */
  readonly #batch: Batch<Op | Statement, string | readonly Row[]>;
  /** When the pending statement was sent. */
  #sentAtMs: number | null = null;
  #watchdog: Timer | null = null;
  #isLost = false;

  private constructor(
    connection: Connection,
    options: SessionOptions,
    capacity: number,
    hashesAlike: boolean,
  ) {
    this.#connection = connection;
    this.#options = options;
    this.capacity = capacity;
    this.hashesAlike = hashesAlike;
    this.#batch = new Batch({
      clock: options.clock,
      itemsMax: BATCH_MAX,
      callsMax: 1,
      keepsSent: true,
      isAlone: isStatement,
      send: this.#send,
      errors: {
        notSent: gaveUp,
        noAnswer: lost,
        failed: failureOf,
      },
    });
  }

  /**
   * Rejects with `UnsupportedError` behind a pooler, and with a `StoreError` of `applied: 'no'`
   * when there is no connection or the server is a standby.
   */
  static async open(factory: ConnectionFactory, options: SessionOptions): Promise<Session> {
    let session: Session | null = null;
    const connection = await Connection.open(factory, {
      clock: options.clock,
      signal: options.signal,
      onNotification: (channel, payload) => options.onNotification(channel, payload),
      onClose: () => {
        if (session !== null) session.#lose();
      },
    });
    const stopListening = onAbort(options.signal, () => connection.destroy());
    try {
      if (!connection.isDirect) throw pooled();
      const { capacity, hashesAlike } = await prepare(connection);
      session = new Session(connection, options, capacity, hashesAlike);
      if (!connection.isOpen) throw lost();
      connection.setKeepAlive(false);
      return session;
    } catch (error) {
      connection.destroy();
      throw error instanceof StoreError ? notBegun(error) : error;
    } finally {
      stopListening();
    }
  }

  get id(): number {
    return this.#connection.backendId;
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /** Shows people whose session it is. */
  introduce(owner: string | null): void {
    if (owner === null) return;
    this.isNamed = true;
    this.run({ text: NAME, values: [owner] }).catch(() => {});
  }

  /** How many advisory locks there are at the server, of all sessions. */
  async countAll(): Promise<number> {
    const [row] = await this.run({ text: COUNT });
    return Number(row?.[1]);
  }

  /** The server's own hash, where it differs from `hashText`. */
  async hash(name: string): Promise<bigint> {
    const text = 'SELECT pg_backend_pid()::text, hashtextextended($1::text, 0)::text';
    const [row] = await this.run({ text, values: [name] });
    return BigInt(row?.[1] ?? 0);
  }

  /**
   * Does one operation, together with others, and resolves to its answer. Rejects with a
   * `StoreError`: `applied: 'no'` when it was not sent or was undone.
   */
  ask(op: Op, signal?: AbortSignal): Promise<string> {
    return this.#batch.add(op, signal) as Promise<string>;
  }

  /**
   * Runs one statement by itself. It must have a row, whose first column begins with
   * `pg_backend_pid()`.
   */
  run(statement: Statement): Promise<readonly Row[]> {
    return this.#batch.add(statement, undefined) as Promise<readonly Row[]>;
  }

  /** Gives all locks back by ending the session. Never rejects. */
  async close(): Promise<void> {
    this.#isLost = true;
    this.#watchdog?.cancel();
    const closing = this.#connection.close();
    this.#batch.rejectQueued(notSent('the connection was closed'));
    await closing;
  }

  #lose(): void {
    if (this.#isLost) return;
    this.#isLost = true;
    this.#watchdog?.cancel();
    // The server may still answer on it, so it must never be used again.
    this.#connection.destroy();
    this.#options.onLost();
    this.#batch.rejectQueued(notSent('the connection was lost'));
  }

  /** Without `async`: each of its steps would cost every lock and unlock (`bench postgres advisory-one`). */
  readonly #send: Send<Op | Statement, string | readonly Row[]> = (requests) => {
    const [first] = requests;
    const single = first !== undefined && isStatement(first) ? first : null;
    const ops = requests as readonly Op[];
    return this.#execute(single ?? statementOf(ops)).then(
      (rows) => (single === null ? ops.map((_, n) => ({ value: answerOf(rows[n]) })) : [{ value: rows }]),
      (error: unknown) => {
        if (single !== null || this.#isLost) throw error;
        return this.#undo(ops, failureOf(error));
      },
    );
  };

  #execute(statement: Statement): Promise<readonly Row[]> {
    const connection = this.#connection;
    // A caller waits for the answer, and nobody for an idle session.
    connection.setKeepAlive(true);
    this.#sentAtMs = this.#options.clock.monotonicMs();
    this.#watchdog ??= this.#watch(WATCH_EVERY_MS);
    const settle = (): void => {
      this.#sentAtMs = null;
      connection.setKeepAlive(false);
    };
    return connection.run(statement, null).then(
      (rows) => {
        settle();
        if (Number.parseInt(rows[0]?.[0] ?? '', 10) === connection.backendId) return rows;
        this.#lose();
        throw otherBackend();
      },
      (error: unknown) => {
        settle();
        if (!connection.isOpen) this.#lose();
        throw error;
      },
    );
  }

  /**
   * Ends the connection when a statement takes too long. One timer serves many statements, because
   * a timer for each made an uncontended pair 4 % slower (bench advisory-one). The timer stops when
   * no statement is pending.
   */
  #watch(ms: number): Timer {
    const { clock } = this.#options;
    return clock.startTimer(Math.max(ms, 1), () => {
      this.#watchdog = null;
      if (this.#sentAtMs === null) return;
      const limitMs = this.holds === 0 ? LIMIT_UNUSED_MS : TRUST_MS;
      const leftMs = this.#sentAtMs + limitMs - clock.monotonicMs();
      if (leftMs > 0) this.#watchdog = this.#watch(Math.min(leftMs, WATCH_EVERY_MS));
      else this.#connection.destroy();
    });
  }

  /**
   * A failed statement may have locked some of its keys: a session lock is not undone with the
   * statement.
   */
  async #undo(ops: readonly Op[], error: StoreError): Promise<readonly Answer<string>[]> {
    try {
      await this.#unlock(ops);
    } catch {
      this.#lose();
      throw new StoreError(error.message, { cause: error, applied: 'unknown' });
    }
    return ops.map(({ do: what }) => (what === 'unlock' || what === 'leave' ? { value: 'u' } : { error }));
  }

  /**
   * Unlocks what these operations may have locked; it does no harm where they have not. That affects no
   * other claim: for each key, only one claim at a time asks.
   */
  async #unlock(ops: readonly Op[]): Promise<void> {
    const undo = ops.flatMap((op): Op[] => {
      if (op.do === 'clock') return [];
      const { key } = op;
      const leave: Op = { do: 'leave', key };
      if (op.do === 'leave') return [leave];
      const unlock: Op = { do: 'unlock', mode: op.mode, key };
      // A lock operation announces only where the session did not share the companion lock before.
      return op.do === 'lock' && op.announce ? [unlock, leave] : [unlock];
    });
    if (undo.length > 0) await this.#execute(statementOf(undo));
  }
}

async function prepare(connection: Connection): Promise<{ capacity: number; hashesAlike: boolean }> {
  // A pooler that reports the right process id may still give this session to several clients.
  const [unused] = await connection.run({ text: UNUSED });
  if (unused?.[0] !== '0') throw pooled();
  await connection.run({ text: SET, values: [JSON.stringify(SETTINGS)] });
  await connection.run({ text: `LISTEN ${CHANNEL}; LISTEN ${CHANNEL}_${connection.backendId}` });
  const [row] = await connection.run({ text: LOOK, values: [PROBE, OURS] });
  const [backendId, hash, capacity] = row ?? [];
  if (Number(backendId) !== connection.backendId) throw pooled();
  return { capacity: Number(capacity), hashesAlike: hash === String(hashText(PROBE)) };
}

function isStatement(request: Op | Statement): request is Statement {
  return 'text' in request;
}

/** The answer, without the id of the server process. */
function answerOf(row: Row | undefined): string {
  const text = row?.[0] ?? '';
  return text.slice(text.indexOf(' ') + 1);
}

/** A pooler that was not noticed has passed the statement to another session, which has no locks. */
function otherBackend(): StoreError {
  const message = 'PostgreSQL: the answer came from another server process; is there a pooler?';
  return new StoreError(message, { applied: 'unknown' });
}

function lost(): StoreError {
  return new StoreError('PostgreSQL: the connection was lost', { applied: 'unknown' });
}

function pooled(): UnsupportedError {
  return new UnsupportedError(
    'There is a pooler in front of PostgreSQL. Behind a pooler, a session lock belongs to the next ' +
      'client of the connection. Connect to the server directly, or use postgresLeaseStore or ' +
      'lockInTransaction, which work behind a pooler',
  );
}
