import { Fences, type PostgresFenceOptions } from '../stores/postgres/fence.ts';
import type { Queryable } from '../stores/postgres/queryable.ts';
import type { FenceGate } from './fence-gate.ts';

/**
 * A gate in the database that the writes go to. Check inside the transaction that writes, so that the two commit together or not at all; check before you read what the write depends
 * on, for an earlier holder that is still writing is waited for:
 *
 * ```ts
 * await client.query('BEGIN');
 * await postgresFenceGate(client).check('account 7', hold.fence);
 * await client.query('UPDATE account SET …');
 * await client.query('COMMIT');
 * ```
 *
 * Outside a transaction it says what was true at that moment, and protects no write.
 *
 * Uses the table `fences` of the schema that the migrations make; rejects with `UnsupportedError` when it is not there. What the server itself says passes through unchanged.
 *
 * @param tx a `pg` client inside a transaction, a transaction of postgres.js, or anything with a `query(text, values)`; it stays the caller's.
 */
export function postgresFenceGate(tx: Queryable, options: PostgresFenceOptions = {}): FenceGate {
  const fences = new Fences(tx, options);
  return { check: (resource, fence) => fences.pass('latest_fence', resource, fence) };
}
