import type { Clock } from '../../../clock.ts';
import { StoreError, UnsupportedError } from '../../../errors.ts';
import { Connection } from '../connection.ts';
import { notBegun } from '../failure.ts';
import type { Dial } from '../wire.ts';
import { hashText } from './hash.ts';
import { type LockKey, OURS, placeOf } from './lock-key.ts';
import { Queue } from './queue.ts';
import { CHANNEL, type Op, statementOf } from './statement.ts';

/**
 * For how long after a statement was sent that the server has answered the locks are ours for certain. It must be less than what the server needs to give a silent client up: it has
 * heard that statement later than it was sent, waits for SILENCE_MS from then on, and only then frees what the session holds.
 */
export const TRUST_MS = 8_000;
const SILENCE_MS = 10_000;
/** Without holds a session is worth nothing, and a dead link is left sooner. */
const LIMIT_UNUSED_MS = 3_000;
/** Another name than ASCII can spell, so that the encoding counts. */
const PROBE = 'holdfast §';

/** Settings of our session alone. A wait or a rest that the user limits elsewhere must not end it, and a NOTIFY need not reach the disk. */
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

/** Settings that this version has not are left out. */
const SET = `SELECT set_config(name, setting, false) FROM json_each_text($1::text::json) AS wanted (name, setting)
WHERE name = 'application_name' OR EXISTS (SELECT FROM pg_settings AS known WHERE known.name = wanted.name)`;

const LOOK = `SELECT pg_backend_pid()::text, hashtextextended($1::text, 0)::text,
  (current_setting('max_locks_per_transaction')::int8 * (current_setting('max_connections')::int8
    + current_setting('max_prepared_transactions')::int8))::text,
  pg_try_advisory_lock_shared($2::text::int8)::text`;

/** A session that has just begun holds nothing. */
const UNUSED = `SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()`;

const NAME = "SELECT pg_backend_pid()::text, set_config('application_name', $1::text, false)";

const HELD = `SELECT pg_backend_pid()::text, concat_ws(' ', classid, objid, objsubid), mode
FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted`;

const COUNT = "SELECT pg_backend_pid()::text, count(*)::text FROM pg_locks WHERE locktype = 'advisory'";

export interface SessionOptions {
  readonly clock: Clock;
  /** Shown to people as the session's application name. */
  readonly owner: string | null;
  onNotification(channel: string, payload: string): void;
  /** Told once: whatever it held is lost. */
  onLost(session: Session, why: StoreError): void;
}

/** One connection to the server, and the locks that live and die with it. */
export class Session {
  readonly queue: Queue;
  /** How many locks the server's table was made for. */
  readonly capacity: number;
  /** Whether names have the keys here that we think they have. */
  readonly hashesAlike: boolean;
  /** How many locks it has at the server, or has asked for. */
  locks = 0;
  /** How many claims were granted. */
  holds = 0;
  isNamed: boolean;
  readonly #connection: Connection;
  readonly #options: SessionOptions;
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
    this.isNamed = options.owner !== null;
    this.queue = new Queue(connection, {
      clock: options.clock,
      limitMs: () => (this.holds === 0 ? LIMIT_UNUSED_MS : TRUST_MS),
      repair: (ops) => this.#repair(ops),
      onBroken: (error) => this.#lose(error),
    });
  }

  /** Rejects with `UnsupportedError` behind a pooler, and with a `StoreError` of `applied: 'no'` when there is no connection or the server is a standby. */
  static async open(dial: Dial, options: SessionOptions): Promise<Session> {
    let session: Session | null = null;
    let isClosed = false;
    const connection = await Connection.open(dial, {
      clock: options.clock,
      onNotification: (channel, payload) => options.onNotification(channel, payload),
      onClose(reason) {
        isClosed = true;
        if (session !== null) session.#lose(lost(reason));
      },
    });
    try {
      if (!connection.isDirect) throw pooled();
      const { capacity, hashesAlike } = await prepare(connection, options.owner);
      session = new Session(connection, options, capacity, hashesAlike);
      if (isClosed) throw lost(null);
      connection.setKeepAlive(false);
      return session;
    } catch (error) {
      connection.destroy();
      throw error instanceof StoreError ? notBegun(error) : error;
    }
  }

  get id(): number {
    return this.#connection.backendId;
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /** Shows people whose session it is, where it was opened only to look. */
  introduce(owner: string | null): void {
    if (this.isNamed || owner === null) return;
    this.isNamed = true;
    this.queue.run({ text: NAME, values: [owner] }).catch(() => {});
  }

  /** How many advisory locks there are at the server, of everybody's. */
  async countAll(): Promise<number> {
    const [row] = await this.queue.run({ text: COUNT });
    return Number(row?.[1]);
  }

  /** The server's own hash, where ours is another. */
  async hash(name: string): Promise<bigint> {
    const text = 'SELECT pg_backend_pid()::text, hashtextextended($1::text, 0)::text';
    const [row] = await this.queue.run({ text, values: [name] });
    return BigInt(row?.[1] ?? 0);
  }

  /** Gives everything back with a goodbye. Never rejects. */
  async close(): Promise<void> {
    this.#isLost = true;
    const closing = this.#connection.close();
    this.queue.fail();
    await closing;
  }

  #lose(why: StoreError): void {
    if (this.#isLost) return;
    this.#isLost = true;
    // Never to be used again: the server may still answer, and then must find nobody.
    this.#connection.destroy();
    this.#options.onLost(this, why);
    this.queue.fail();
  }

  /** Of what these operations may have left behind, nothing stays. What is held otherwise is not touched: for one key there is only one claim at a time that asks. */
  async #repair(ops: readonly Op[]): Promise<void> {
    const held = new Set(
      (await this.queue.send({ text: HELD })).map(([, place, mode]) => `${place} ${mode}`),
    );
    const undo: Op[] = [];
    for (const op of ops) {
      if (!('key' in op)) continue;
      if (op.do !== 'leave' && held.delete(`${placeOf(op.key)} ${MODES[op.mode]}`))
        undo.push({ ...op, do: 'unlock', line: true });
      // One lock operation takes part in the line only when we did not before.
      const isPart = op.do === 'leave' || (op.do === 'lock' && op.line);
      if (isPart && held.delete(`${linePlace(op.key)} ShareLock`)) undo.push({ do: 'leave', key: op.key });
    }
    if (undo.length > 0) await this.queue.send(statementOf(undo));
  }
}

const MODES = { exclusive: 'ExclusiveLock', shared: 'ShareLock' } as const;

const linePlace = ({ line }: LockKey): string => placeOf({ key: line, classId: null, objectId: null });

async function prepare(
  connection: Connection,
  owner: string | null,
): Promise<{ capacity: number; hashesAlike: boolean }> {
  // A pooler that hides itself gives the same session to several: then another of ours is in it.
  const [unused] = await connection.run({ text: UNUSED });
  if (unused?.[0] !== '0') throw pooled();
  const name = owner === null ? {} : { application_name: owner };
  await connection.run({ text: SET, values: [JSON.stringify({ ...SETTINGS, ...name })] });
  await connection.run({ text: `LISTEN ${CHANNEL}; LISTEN ${CHANNEL}_${connection.backendId}` });
  const [row] = await connection.run({ text: LOOK, values: [PROBE, OURS] });
  const [backendId, hash, capacity] = row ?? [];
  if (Number(backendId) !== connection.backendId) throw pooled();
  return { capacity: Number(capacity), hashesAlike: hash === String(hashText(PROBE)) };
}

function lost(reason: Error | null): StoreError {
  const why = reason === null ? '' : `: ${reason.message}`;
  return new StoreError(`PostgreSQL: the connection was lost${why}`, { cause: reason, applied: 'unknown' });
}

function pooled(): UnsupportedError {
  return new UnsupportedError(
    'Between us and PostgreSQL is a pooler, behind which locks of a session belong to whoever gets the connection next. ' +
      'Connect to the server itself, or use postgresLeaseStore or lockInTransaction, which work behind a pooler',
  );
}
