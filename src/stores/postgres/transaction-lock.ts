import { checkDuration } from '../../checks.ts';
import { systemClock } from '../../clock.ts';
import { AcquireTimeoutError, InvalidArgumentError, StoreError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import type { ClaimView } from '../../view.ts';
import { failureOf, stateIn } from './failure.ts';
import { checkKey, type Key, showKey } from './key.ts';
import { checkQueryable, type Queryable, rowsOf } from './queryable.ts';

/** How a lock in a transaction is taken. */
export interface TransactionLockOptions {
  /** `shared`: with others who share it. Default `exclusive`. */
  readonly mode?: 'exclusive' | 'shared' | undefined;
}

/** How a lock in a transaction is waited for. */
export interface TransactionLockWait extends TransactionLockOptions {
  /** How long to wait, for all keys together. 0: one try. `Infinity`: until the server ends the wait. Default 10,000. */
  readonly waitMs?: number | undefined;
}

/**
 * Takes advisory locks that end with the caller's transaction, whether it commits or rolls back: there is nothing to release, to renew or to lose. Several keys are taken in the
 * server's order, so that two transactions that lock the same keys in one call never wait for each other.
 *
 * Rejects with `AcquireTimeoutError` after `waitMs`, with the sessions that hold a key then, each by its application name; with `InvalidArgumentError` for a bad key, or when `tx` is not inside a transaction, where the lock would end before anybody
 * could rely on it; with `StoreError` for whatever else the server says (deadlock, cancelled, out of memory). After each of these the transaction is as it was before the call, none of the locks
 * is held, and `lock_timeout` has not changed.
 *
 * Above READ COMMITTED, a transaction may go on seeing the data of before the lock was waited for.
 */
export async function lockInTransaction(
  tx: Queryable,
  key: Key | readonly Key[],
  options: TransactionLockWait = {},
): Promise<void> {
  const waitMs = checkDuration('waitMs', options.waitMs ?? DEFAULTS.settings.waitMs, ', or 0, or Infinity');
  const wanted = want(tx, key, options);
  if (wanted.keys.length === 0) return;
  const startedMs = systemClock.monotonicMs();
  const isLocked = await inTurn(tx, () =>
    waitMs === 0 ? tryAll(tx, wanted) : inSavepoint(tx, () => waitForAll(tx, wanted, waitMs)),
  );
  if (isLocked) return;
  const waitedMs = systemClock.monotonicMs() - startedMs;
  const holders = await inTurn(tx, () => holdersOf(tx, wanted));
  throw new AcquireTimeoutError(wanted.label, waitedMs, holders);
}

/**
 * One try for all of the keys. Resolves to whether they are held now, each until the end of the transaction; otherwise none of them is. Rejects as `lockInTransaction`
 * does, but for the wait.
 */
export async function tryLockInTransaction(
  tx: Queryable,
  key: Key | readonly Key[],
  options: TransactionLockOptions = {},
): Promise<boolean> {
  const wanted = want(tx, key, options);
  return wanted.keys.length === 0 || (await inTurn(tx, () => tryAll(tx, wanted)));
}

interface Wanted {
  readonly keys: readonly Key[];
  readonly suffix: '' | '_shared';
  readonly label: string;
}

function want(tx: Queryable, key: Key | readonly Key[], { mode }: TransactionLockOptions): Wanted {
  checkQueryable(tx);
  if (mode !== undefined && mode !== 'exclusive' && mode !== 'shared')
    throw new InvalidArgumentError('mode', "must be 'exclusive' or 'shared'");
  const keys = (Array.isArray(key) ? (key as readonly Key[]) : [key as Key]).map(checkKey);
  return { keys, suffix: mode === 'shared' ? '_shared' : '', label: keys.map(showKey).join(' and ') };
}

const SAVEPOINT = 'holdfast_lock';
const SHOWN_MAX = 10;
const LOCK_TIMEOUT = '55P03';
const NO_TRANSACTION = '25P01';

/** The keys in the order in which everybody takes them, each once. As one text, because every client library agrees on how that is sent. */
const KEYS = `SELECT DISTINCT item->'pair' IS NOT NULL AS is_pair,
    coalesce((item->>'key')::int8, hashtextextended(item->>'name', 0)) AS key,
    (item->'pair'->>0)::int4 AS class_id, (item->'pair'->>1)::int4 AS object_id
  FROM jsonb_array_elements($1::text::jsonb) AS item ORDER BY 1, 2, 3, 4`;

function encode(keys: readonly Key[]): string {
  return JSON.stringify(
    keys.map((key) => {
      if (typeof key === 'string') return { name: key };
      return typeof key === 'bigint' ? { key: String(key) } : { pair: [key.classId, key.objectId] };
    }),
  );
}

const call = (name: string): string =>
  `CASE WHEN is_pair THEN ${name}(class_id, object_id) ELSE ${name}(key) END`;

async function tryAll(tx: Queryable, { keys, suffix }: Wanted): Promise<boolean> {
  return await inSavepoint(tx, async () => {
    const text = `SELECT (${call(`pg_try_advisory_xact_lock${suffix}`)})::text AS held FROM (${KEYS}) AS keys`;
    const rows = await rowsOf<{ held: string }>(tx, text, [encode(keys)]);
    return rows.every((row) => row.held === 'true');
  });
}

/**
 * The time-out of each wait is what the waits before it have left of the budget. The row filter reads the caller's own `lock_timeout` before the first lock changes it, and the last
 * step puts it back, in the same statement.
 */
async function waitForAll(tx: Queryable, { keys, suffix }: Wanted, waitMs: number): Promise<boolean> {
  const spentMs = 'extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000';
  const left =
    waitMs === Number.POSITIVE_INFINITY ? "'0'" : `greatest(1, ${waitMs} - ${spentMs})::int8::text`;
  const text = `WITH before AS MATERIALIZED (SELECT current_setting('lock_timeout') AS value),
  keys AS MATERIALIZED (${KEYS}),
  locked AS MATERIALIZED (
    SELECT CASE WHEN set_config('lock_timeout', ${left}, true) IS NOT NULL
      THEN CASE WHEN is_pair THEN pg_advisory_xact_lock${suffix}(class_id, object_id)::text
                ELSE pg_advisory_xact_lock${suffix}(key)::text END END AS done
    FROM keys WHERE (SELECT value FROM before) IS NOT NULL)
SELECT set_config('lock_timeout', (SELECT value FROM before), true) FROM (SELECT count(done) AS count FROM locked) AS done WHERE done.count >= 0`;
  try {
    await rowsOf(tx, text, [encode(keys)]);
    return true;
  } catch (error) {
    if (stateIn(error) === LOCK_TIMEOUT) return false;
    throw error;
  }
}

/** Which sessions hold one of the keys. For people: nothing when the server does not say. */
async function holdersOf(tx: Queryable, { keys }: Wanted): Promise<ClaimView[]> {
  const low = (value: string): string => `${value} & 4294967295`;
  const text = `SELECT l.pid::text AS pid, bool_or(l.mode = 'ExclusiveLock')::text AS exclusive, max(a.application_name) AS application
FROM (${KEYS}) AS k JOIN pg_locks AS l ON l.locktype = 'advisory' AND l.granted AND l.pid <> pg_backend_pid()
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND CASE WHEN k.is_pair THEN (l.classid::int8, l.objid::int8, l.objsubid) = (${low('k.class_id::int8')}, ${low('k.object_id::int8')}, 2)
      ELSE (l.classid::int8, l.objid::int8, l.objsubid) = (${low('(k.key >> 32)')}, ${low('k.key')}, 1) END
  LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid GROUP BY l.pid LIMIT ${SHOWN_MAX}`;
  let rows: readonly { pid: string; exclusive: string; application: string | null }[] = [];
  await inSavepoint(tx, async () => {
    rows = await rowsOf(tx, text, [encode(keys)]);
    return true;
  }).catch(() => {});
  return rows.map(({ pid, exclusive, application }) => ({
    id: `session ${pid}`,
    owner: application === '' ? null : application,
    mode: { kind: exclusive === 'true' ? 'exclusive' : 'shared' },
    ...{ fence: null, heldForMs: null, expiresInMs: null, metadata: null },
  }));
}

/** Rolls back to where it began unless the work comes to `true`. Outside a transaction there are no savepoints, so that is found out first. */
async function inSavepoint(tx: Queryable, work: () => Promise<boolean>): Promise<boolean> {
  await rowsOf(tx, `SAVEPOINT ${SAVEPOINT}`).catch((error: unknown) => {
    if (stateIn(error) === NO_TRANSACTION)
      throw new InvalidArgumentError('tx', 'is not inside a transaction: the lock would end at once');
    throw asStoreError(error);
  });
  try {
    const isDone = await work();
    if (!isDone) await rowsOf(tx, `ROLLBACK TO SAVEPOINT ${SAVEPOINT}`);
    await rowsOf(tx, `RELEASE SAVEPOINT ${SAVEPOINT}`);
    return isDone;
  } catch (error) {
    await rowsOf(tx, `ROLLBACK TO SAVEPOINT ${SAVEPOINT}`)
      .then(() => rowsOf(tx, `RELEASE SAVEPOINT ${SAVEPOINT}`))
      // The connection is gone, and the transaction with it: the first error says why.
      .catch(() => {});
    throw asStoreError(error);
  }
}

/** A transaction that did not commit has done nothing: either it still can be used, or it is gone. */
function asStoreError(error: unknown): StoreError {
  return new StoreError(failureOf(error).message, { cause: error, applied: 'no' });
}

const TURNS = new WeakMap<object, Promise<unknown>>();

/** Savepoints nest: two calls on one transaction at once would end each other's. */
async function inTurn<T>(tx: Queryable, work: () => Promise<T>): Promise<T> {
  const turn = (TURNS.get(tx) ?? Promise.resolve()).then(work, work);
  TURNS.set(tx, turn);
  return await turn;
}
