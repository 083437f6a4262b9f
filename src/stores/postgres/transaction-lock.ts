import { checkDuration, checkKeys } from '../../checks.ts';
import { systemClock } from '../../clock.ts';
import { AcquireTimeoutError, InvalidArgumentError, StoreError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import type { ClaimView } from '../../view.ts';
import { failureOf } from './failure.ts';
import { checkKey, type Key, showKey } from './key.ts';
import { assertTransaction, checkQueryable, type Queryable, rowsOf } from './queryable.ts';

/** Options of `tryLockInTransaction`. */
export interface TransactionLockOptions {
  /** `shared`: several transactions may share the lock. Default `exclusive`. */
  readonly mode?: 'exclusive' | 'shared' | undefined;
}

/** Options of `lockInTransaction`. */
export interface TransactionLockWait extends TransactionLockOptions {
  /**
   * How long to wait for all keys together. 0: one attempt. `Infinity`: no limit. Default 10,000.
   */
  readonly waitMs?: number | undefined;
}

/**
 * Takes advisory locks that are held until the caller's transaction commits or rolls back. There is
 * nothing to release, to renew or to lose. Every call takes its keys in the same order, so that two
 * calls with the same keys never deadlock.
 *
 * Rejects with
 * - `AcquireTimeoutError` after `waitMs`; its holders are sessions, by their application names;
 * - `InvalidArgumentError` for a bad key, or when `tx` is not inside a transaction;
 * - `StoreError` for any other failure at the server (deadlock, cancelled, out of memory).
 *
 * After each of these the transaction can continue, with every client library: it holds none of the
 * locks, and its `lock_timeout` is unchanged.
 *
 * Above READ COMMITTED, the transaction may continue to see the data from before the wait.
 */
export async function lockInTransaction(
  tx: Queryable,
  key: Key | readonly Key[],
  options: TransactionLockWait = {},
): Promise<void> {
  checkKeys(options, ['mode', 'waitMs']);
  const waitMs = checkDuration('waitMs', options.waitMs ?? DEFAULTS.settings.waitMs, ', or 0, or Infinity');
  const keys = checkArguments(tx, key, options);
  const startedMs = systemClock.monotonicMs();
  const outcome = await lockAll(tx, keys, options, waitMs, true);
  if (outcome.held) return;
  const waitedMs = systemClock.monotonicMs() - startedMs;
  throw new AcquireTimeoutError(keys.map(showKey).join(' and '), waitedMs, outcome.holders.map(asView));
}

/**
 * One attempt for all of the keys. Resolves to whether the transaction holds all of them now;
 * otherwise it holds none. Rejects as `lockInTransaction` does, but never with a time-out.
 */
export async function tryLockInTransaction(
  tx: Queryable,
  key: Key | readonly Key[],
  options: TransactionLockOptions = {},
): Promise<boolean> {
  checkKeys(options, ['mode']);
  return (await lockAll(tx, checkArguments(tx, key, options), options, 0, false)).held;
}

function checkArguments(
  tx: Queryable,
  key: Key | readonly Key[],
  { mode }: TransactionLockOptions,
): readonly Key[] {
  checkQueryable(tx);
  if (mode !== undefined && mode !== 'exclusive' && mode !== 'shared')
    throw new InvalidArgumentError('mode', "must be 'exclusive' or 'shared'");
  return (Array.isArray(key) ? (key as readonly Key[]) : [key as Key]).map(checkKey);
}

/** One session that holds one of the keys. */
interface Holder {
  readonly pid: number;
  readonly exclusive: boolean;
  readonly application: string | null;
}

type LockOutcome = { readonly held: true } | { readonly held: false; readonly holders: readonly Holder[] };

/** The outcome of `lockBlock`. `state` is the SQLSTATE of a failure that the block caught. */
type Report = LockOutcome | { readonly state: string; readonly message: string; readonly detail: string };

const REPORT = `SELECT current_setting('holdfast.lock_report') AS report`;

async function lockAll(
  tx: Queryable,
  keys: readonly Key[],
  { mode }: TransactionLockOptions,
  waitMs: number,
  showsHolders: boolean,
): Promise<LockOutcome> {
  if (keys.length === 0) return { held: true };
  const block = lockBlock(keys, mode === 'shared' ? '_shared' : '', waitMs, showsHolders);
  const report = await inTurn(tx, async () => {
    try {
      // A table that every database has.
      await assertTransaction(tx, 'pg_catalog.pg_am', 'the lock would end at once');
      await rowsOf(tx, block);
      const [row] = await rowsOf<{ report: string }>(tx, REPORT);
      return JSON.parse(row?.report ?? 'null') as Report;
    } catch (error) {
      throw error instanceof InvalidArgumentError ? error : notApplied(error);
    }
  });
  if ('held' in report) return report;
  const { state, message, detail } = report;
  throw notApplied(Object.assign(new Error(message), { code: state, detail }));
}

/** The transaction has not committed, so nothing was applied. */
function notApplied(error: unknown): StoreError {
  return new StoreError(failureOf(error).message, { cause: error, applied: 'no' });
}

const HOLDERS_MAX = 10;

/**
 * A block that takes all of the keys or none, and never fails. Client libraries such as postgres.js
 * roll a transaction back after any failed statement, even if a savepoint has undone the failure.
 * The inner block is a subtransaction: a failure undoes its locks and its `lock_timeout`. A cancelled
 * statement has to be caught by name.
 *
 * A DO block has no parameters and no result. So the keys are part of its text, in base64, which
 * needs no quotes, and the outcome is stored in a setting of the transaction.
 */
function lockBlock(keys: readonly Key[], suffix: string, waitMs: number, showsHolders: boolean): string {
  const timeout = Number.isFinite(waitMs) ? `greatest(1, ${waitMs} - spent_ms)::int8::text` : "'0'";
  const call = (args: string): string =>
    waitMs === 0
      ? `is_taken := pg_try_advisory_xact_lock${suffix}(${args});`
      : `PERFORM pg_advisory_xact_lock${suffix}(${args});`;
  return `DO $holdfast$
DECLARE
  items jsonb := convert_from(decode('${encode(keys)}', 'base64'), 'UTF8')::jsonb;
  own_timeout text := current_setting('lock_timeout');
  spent_ms float8;
  is_taken bool := true;
  item record;
  report jsonb;
  failure_detail text;
BEGIN
  BEGIN
    FOR item IN ${KEYS} LOOP
      spent_ms := extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000;
      PERFORM set_config('lock_timeout', ${timeout}, true);
      IF item.is_pair THEN ${call('item.class_id, item.object_id')} ELSE ${call('item.key')} END IF;
      IF NOT is_taken THEN RAISE lock_not_available; END IF;
    END LOOP;
    PERFORM set_config('lock_timeout', own_timeout, true);
    report := '{"held": true}';
  EXCEPTION
    WHEN lock_not_available THEN
      report := '{"held": false, "holders": []}';
    WHEN OTHERS OR query_canceled THEN
      GET STACKED DIAGNOSTICS failure_detail = PG_EXCEPTION_DETAIL;
      report := jsonb_build_object('state', SQLSTATE, 'message', SQLERRM, 'detail', failure_detail);
  END;
  IF ${showsHolders} AND report->'holders' IS NOT NULL THEN
    BEGIN
      report := jsonb_build_object('held', false, 'holders', (${HOLDERS}));
    EXCEPTION WHEN OTHERS OR query_canceled THEN
      NULL; -- The time-out is then reported without the holders.
    END;
  END IF;
  PERFORM set_config('holdfast.lock_report', report::text, true);
END $holdfast$`;
}

/** The keys in the order in which every call takes them, each once. */
const KEYS = `SELECT DISTINCT each->'pair' IS NOT NULL AS is_pair,
    coalesce((each->>'key')::int8, hashtextextended(each->>'name', 0)) AS key,
    (each->'pair'->>0)::int4 AS class_id, (each->'pair'->>1)::int4 AS object_id
  FROM jsonb_array_elements(items) AS each ORDER BY 1, 2, 3, 4`;

const LOW_BITS = '& 4294967295';

const HOLDERS = `SELECT coalesce(jsonb_agg(holder), '[]') FROM (
  SELECT l.pid, bool_or(l.mode = 'ExclusiveLock') AS exclusive, max(a.application_name) AS application
  FROM (${KEYS}) AS k JOIN pg_locks AS l
    ON l.locktype = 'advisory' AND l.granted AND l.pid <> pg_backend_pid()
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND CASE WHEN k.is_pair
        THEN (l.classid::int8, l.objid::int8, l.objsubid)
          = (k.class_id::int8 ${LOW_BITS}, k.object_id::int8 ${LOW_BITS}, 2)
        ELSE (l.classid::int8, l.objid::int8, l.objsubid)
          = ((k.key >> 32) ${LOW_BITS}, k.key ${LOW_BITS}, 1) END
    LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
  GROUP BY l.pid LIMIT ${HOLDERS_MAX}) AS holder`;

function encode(keys: readonly Key[]): string {
  const items = keys.map((key) => {
    if (typeof key === 'string') return { name: key };
    return typeof key === 'bigint' ? { key: String(key) } : { pair: [key.classId, key.objectId] };
  });
  return Buffer.from(JSON.stringify(items)).toString('base64');
}

function asView({ pid, exclusive, application }: Holder): ClaimView {
  return {
    id: `session ${pid}`,
    owner: application === '' ? null : application,
    mode: { kind: exclusive ? 'exclusive' : 'shared' },
    fence: null,
    heldForMs: null,
    expiresInMs: null,
    metadata: null,
  };
}

const TURNS = new WeakMap<object, Promise<unknown>>();

/** Runs calls on one transaction one after the other: each reads its outcome from the same setting. */
async function inTurn<T>(tx: Queryable, work: () => Promise<T>): Promise<T> {
  const turn = (TURNS.get(tx) ?? Promise.resolve()).then(work, work);
  TURNS.set(tx, turn);
  return await turn;
}
