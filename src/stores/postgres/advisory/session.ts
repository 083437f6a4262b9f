import type { Clock, Timer } from '../../../clock.ts';
import { StoreError, UnsupportedError } from '../../../errors.ts';
import { onAbort } from '../../../util/abort.ts';
import { Batch } from '../../shared/batch.ts';
import type { Answer, Send } from '../../shared/batch-options.ts';
import { Connection, type ConnectionFactory, type Row, type Statement } from '../connection.ts';
import { failureOf, failures, gaveUp, notBegun, notSent } from '../failure.ts';
import { hashText } from './hash.ts';
import { OURS } from './lock-key.ts';
import { SharedPromise } from './shared-promise.ts';
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
const WATCH_EVERY_MS = 1_000;
const OPS_MAX = 256;
/** How many more locks the session may take before it counts again those in the server's table. */
const STEP = 128;
/** The share of that table that may be used. When it is full, no program can connect. */
const TABLE_SHARE = 3 / 4;
const COUNT_AGAIN_MS = 1_000;
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

/** How many entries of the lock table may be used, and in steps of how many they are counted. */
export function roomFor(capacity: number): { readonly max: number; readonly step: number } {
  return { max: Math.floor(capacity * TABLE_SHARE), step: STEP };
}

export interface SessionOptions {
  readonly clock: Clock;
  /** Ends the opening of the session. */
  readonly signal: AbortSignal;
  onNotification(channel: string, payload: string): void;
  /** Called once, when the session has ended and all its locks are lost. */
  onLost(): void;
}

type ServerFacts = Pick<Session, 'capacity' | 'hashesAlike'>;

/** One connection to the server, and the locks that it has. They are lost when it ends. */
export class Session {
  /** The id of the server process. */
  readonly id: number;
  /** How many locks fit into the server's lock table. */
  readonly capacity: number;
  /** Whether `hashText` computes the same hashes as the server. */
  readonly hashesAlike: boolean;
  holds = 0;
  isNamed = false;
  isLost = false;
  readonly #connection: Connection;
  readonly #options: SessionOptions;
  /**
   * One statement at a time. An operation that was sent is never abandoned: its answer decides
   * which locks this process has.
   */
  readonly #batch: Batch<Op | Statement, string | readonly Row[]>;
  /** `null`: no statement is pending. */
  #sentAtMs: number | null = null;
  #watchdog: Timer | null = null;
  #locksMax = STEP;
  #count: SharedPromise<void> | null = null;
  #fullUntilMs = 0;

  private constructor(connection: Connection, options: SessionOptions, server: ServerFacts) {
    this.id = connection.backendId;
    this.capacity = server.capacity;
    this.hashesAlike = server.hashesAlike;
    this.#connection = connection;
    this.#options = options;
    this.#batch = new Batch({
      clock: options.clock,
      itemsMax: OPS_MAX,
      callsMax: 1,
      keepsSent: true,
      isAlone: isStatement,
      send: this.#send,
      errors: { notSent: gaveUp, noAnswer: failures.unanswered, failed: failureOf },
    });
  }

  static async open(factory: ConnectionFactory, options: SessionOptions): Promise<Session> {
    const { clock, signal, onNotification } = options;
    let session: Session | null = null;
    const onClose = (): void => {
      if (session !== null) session.#lose();
    };
    const connection = await Connection.open(factory, { clock, signal, onNotification, onClose });
    const stopListening = onAbort(signal, () => connection.destroy());
    try {
      if (!connection.isDirect) throw pooled();
      session = new Session(connection, options, await prepare(connection));
      if (!connection.isOpen) throw notSent('the connection was lost');
      connection.setKeepAlive(false);
      return session;
    } catch (error) {
      connection.destroy();
      throw error instanceof StoreError ? notBegun(error) : error;
    } finally {
      stopListening();
    }
  }

  /** Shows people whose session it is. */
  introduce(owner: string | null): void {
    if (owner === null) return;
    this.isNamed = true;
    this.run({ text: NAME, values: [owner] }).catch(() => {});
  }

  /** `locks`: how many this process holds or waits for, not counting companions. */
  isWithinLimit(locks: number): boolean {
    return locks < this.#locksMax;
  }

  /**
   * Counts the locks of all programs, so that this process, together with the others, does not fill
   * the server's table. Rejects with a `StoreError` of `applied: 'no'` when there is no room.
   */
  async extendLimit(locks: number, signal: AbortSignal | undefined): Promise<void> {
    if (this.#options.clock.monotonicMs() < this.#fullUntilMs) throw full(this.capacity);
    this.#count ??= new SharedPromise(
      this.#extendLimit(locks).finally(() => {
        this.#count = null;
      }),
    );
    await this.#count.wait(signal);
  }

  async #extendLimit(locks: number): Promise<void> {
    const [row] = await this.run({ text: COUNT });
    if (Number(row?.[1]) + STEP > roomFor(this.capacity).max) {
      this.#fullUntilMs = this.#options.clock.monotonicMs() + COUNT_AGAIN_MS;
      throw full(this.capacity);
    }
    this.#locksMax = locks + STEP;
  }

  /** The server's own hash, where it differs from `hashText`. */
  async hash(name: string): Promise<bigint> {
    const text = 'SELECT pg_backend_pid()::text, hashtextextended($1::text, 0)::text';
    const [row] = await this.run({ text, values: [name] });
    return BigInt(row?.[1] ?? 0);
  }

  /** Resolves to the answer. Rejects with `applied: 'no'` when it was not sent or was undone. */
  ask(op: Op, signal?: AbortSignal): Promise<string> {
    return this.#batch.add(op, signal) as Promise<string>;
  }

  /** Runs one statement by itself. The first column of its rows begins with `pg_backend_pid()`. */
  run(statement: Statement): Promise<readonly Row[]> {
    return this.#batch.add(statement, undefined) as Promise<readonly Row[]>;
  }

  /** Gives all locks back by ending the session. Never rejects. */
  async close(): Promise<void> {
    this.isLost = true;
    this.#watchdog?.cancel();
    const closing = this.#connection.close();
    this.#batch.rejectQueued(notSent('the connection was closed'));
    await closing;
  }

  #lose(): void {
    if (this.isLost) return;
    this.isLost = true;
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
        if (single !== null || this.isLost) throw error;
        return this.#undo(ops, failureOf(error));
      },
    );
  };

  #execute(statement: Statement): Promise<readonly Row[]> {
    const connection = this.#connection;
    // An idle session does not keep the process alive: only a caller that waits for an answer does.
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
        if (Number.parseInt(rows[0]?.[0] ?? '', 10) === this.id) return rows;
        // An unnoticed pooler has passed the statement to another session, which has no locks.
        this.#lose();
        const message = 'PostgreSQL: the answer came from another server process; is there a pooler?';
        throw new StoreError(message, { applied: 'unknown' });
      },
      (error: unknown) => {
        settle();
        if (!connection.isOpen) this.#lose();
        throw error;
      },
    );
  }

  /**
   * Ends the connection when a statement takes too long. One timer serves many statements: a timer
   * for each made an uncontended pair 4 % slower (`bench postgres advisory-one`).
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
   * Unlocks what a failed statement may have locked: a session lock outlives its statement. That
   * affects no other claim: for each key, only one claim at a time asks.
   */
  async #undo(ops: readonly Op[], error: StoreError): Promise<readonly Answer<string>[]> {
    const undo = ops.flatMap(undoOf);
    try {
      if (undo.length > 0) await this.#execute(statementOf(undo));
    } catch {
      this.#lose();
      throw new StoreError(error.message, { cause: error, applied: 'unknown' });
    }
    return ops.map(({ do: what }) => (what === 'unlock' || what === 'leave' ? { value: 'u' } : { error }));
  }
}

/** What undoes the operation, and does no harm where it had no effect. */
function undoOf(op: Op): Op[] {
  if (op.do === 'clock') return [];
  if (op.do === 'leave') return [op];
  const { key, mode } = op;
  const unlock: Op = { do: 'unlock', mode, key };
  // A lock operation announces only where the session did not share the companion lock before.
  return op.do === 'lock' && op.announce ? [unlock, { do: 'leave', key }] : [unlock];
}

async function prepare(connection: Connection): Promise<ServerFacts> {
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

function full(capacity: number): StoreError {
  return new StoreError(
    `PostgreSQL: its table of ${capacity} locks is nearly full. When it is full, no program can connect. ` +
      'Raise max_locks_per_transaction, hold fewer locks, or use postgresLeaseStore',
    { applied: 'no' },
  );
}

function pooled(): UnsupportedError {
  return new UnsupportedError(
    'There is a pooler in front of PostgreSQL. Behind a pooler, a session lock belongs to the next ' +
      'client of the connection. Connect to the server directly, or use postgresLeaseStore or ' +
      'lockInTransaction, which work behind a pooler',
  );
}
