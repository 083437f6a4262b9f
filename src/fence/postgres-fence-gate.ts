import { InvalidArgumentError } from '../errors.ts';
import { Fences, type PostgresFenceOptions } from '../stores/postgres/fence.ts';
import type { Queryable } from '../stores/postgres/queryable.ts';
import type { FenceGate } from './fence-gate.ts';

/**
 * A fence gate in the database that the writes go to. Check inside the transaction that writes, so
 * that both commit or neither does. Check before you read what the write depends on: the check waits
 * for an earlier holder that is still writing.
 *
 * ```ts
 * await client.query('BEGIN');
 * try {
 *   await postgresFenceGate(client).check('account 7', hold.fence);
 *   await client.query('UPDATE account SET …');
 *   await client.query('COMMIT');
 * } catch (error) {
 *   await client.query('ROLLBACK');
 *   throw error;
 * }
 * ```
 *
 * Outside a transaction the check says what was true at that moment, and protects no write. Above READ
 * COMMITTED it rejects with the server's serialization failure (40001) when an earlier holder has
 * committed since the transaction's snapshot.
 *
 * Uses the table `fences` of the schema that the migrations create, and rejects with
 * `UnsupportedError` when it is missing. Other errors of the server pass through unchanged.
 *
 * @param tx a `pg` client inside a transaction, a transaction of postgres.js, or anything with a
 * `query(text, values)`; it stays the caller's. A pool is refused with `InvalidArgumentError`: it gives
 * each statement another connection.
 */
export function postgresFenceGate(tx: Queryable, options: PostgresFenceOptions = {}): FenceGate {
  const fences = new Fences(tx, options);
  if (isPool(tx))
    throw new InvalidArgumentError('tx', 'must be the client of the transaction; a pool protects no write');
  return { check: (resource, fence) => fences.pass('latest_fence', resource, fence) };
}

/** A pool of `pg` counts its clients. Only the outer `sql` of postgres.js has `begin`. */
function isPool(tx: Queryable): boolean {
  return 'totalCount' in tx || ('unsafe' in tx && 'begin' in tx);
}
