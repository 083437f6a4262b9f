import { InvalidArgumentError } from '../../errors.ts';
import { stateIn } from './failure.ts';

/**
 * An object that runs one parameterised statement and returns its rows as objects: a `pg` client, or
 * a wrapper of a query builder.
 */
export interface QueryRunner {
  query(text: string, values: unknown[]): PromiseLike<{ readonly rows: readonly unknown[] }>;
}

/** The part of a postgres.js transaction that is used. */
export interface PostgresJsTransaction {
  unsafe(text: string, values: string[]): PromiseLike<ArrayLike<unknown>>;
}

/**
 * The caller's own transaction: a `pg` client inside `BEGIN`, the `sql` of a postgres.js `begin`,
 * or any object with a `query(text, values)` like that of `pg`. The statements use each parameter
 * once and in order, and all parameters are text.
 */
export type Queryable = QueryRunner | PostgresJsTransaction;

/** The rows of one statement. Rejects as the library does. */
export async function rowsOf<R>(tx: Queryable, text: string, values: string[] = []): Promise<readonly R[]> {
  if ('unsafe' in tx) return Array.from(await tx.unsafe(text, values)) as R[];
  return (await tx.query(text, values)).rows as readonly R[];
}

/** `no_active_sql_transaction`. */
const NO_TRANSACTION = '25P01';

/**
 * Rejects with `InvalidArgumentError` outside a transaction, where the server refuses LOCK TABLE. It takes
 * no snapshot for it, and the lock is the weakest: any statement may take it. `why`: what would be wrong.
 */
export async function assertTransaction(tx: Queryable, table: string, why: string): Promise<void> {
  await rowsOf(tx, `LOCK TABLE ${table} IN ACCESS SHARE MODE`).catch((error: unknown) => {
    if (stateIn(error) !== NO_TRANSACTION) throw error;
    throw new InvalidArgumentError('tx', `is not inside a transaction: ${why}`);
  });
}

export function checkQueryable(tx: Queryable): void {
  const { unsafe, query } = (tx ?? {}) as Partial<Record<'unsafe' | 'query', unknown>>;
  if (typeof unsafe === 'function' || typeof query === 'function') return;
  throw new InvalidArgumentError(
    'tx',
    'must be a transaction of pg or postgres.js, or have a query(text, values)',
  );
}
