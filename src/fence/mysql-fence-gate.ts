import { checkKeys } from '../checks.ts';
import { InvalidArgumentError } from '../errors.ts';
import { errorNumberOf } from '../stores/mysql/failure.ts';
import { Schema } from '../stores/mysql/schema.ts';
import { assertNotStale, checkFence, type FenceGate } from './fence-gate.ts';

/** A connection of `mysql2/promise`, or one of `mysql2`, whose `promise()` gives such a one. */
export interface MysqlTransaction {
  query(text: string, values: unknown[]): unknown;
  promise?(): unknown;
}

/** Where the gate keeps what it has seen. */
export interface MysqlFenceOptions {
  /** The prefix of the store's tables. Default `holdfast_`. */
  readonly prefix?: string | undefined;
}

const RESOURCE_BYTES_MAX = 1_024;
const NO_SUCH_TABLE = 1146;
const RAISE = `INSERT INTO holdfast_fences (resource, fence) VALUES (?, ?)
  ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))`;
/** Above READ COMMITTED a plain SELECT would show what was there when the transaction began. */
const LATEST = 'SELECT CAST(fence AS CHAR) AS fence FROM holdfast_fences WHERE resource = ? FOR UPDATE';

/**
 * A gate in the database that the writes go to. Check inside the transaction that writes, so that the two
 * commit together or not at all. Check before you read anything: the check waits for an earlier holder that
 * is still writing, and at REPEATABLE READ the first read decides what all later ones see.
 *
 * ```ts
 * await connection.beginTransaction();
 * try {
 *   await mysqlFenceGate(connection).check('account 7', hold.fence);
 *   await connection.query('UPDATE account SET …');
 *   await connection.commit();
 * } catch (error) {
 *   await connection.rollback();
 *   throw error;
 * }
 * ```
 *
 * Without the rollback, the next `beginTransaction` of this connection commits what was written before
 * the error. Outside a transaction the check says what was true at that moment, and protects no write.
 *
 * Uses the table `holdfast_fences` that the migrations make; rejects with `UnsupportedError` when it is
 * missing. Other errors of the server pass through unchanged. After a deadlock (1213) the whole
 * transaction was rolled back: run it again.
 *
 * @param tx a connection of mysql2 inside a transaction; it stays the caller's. A pool is refused with
 * `InvalidArgumentError`: it gives each statement another connection.
 */
export function mysqlFenceGate(tx: MysqlTransaction, options: MysqlFenceOptions = {}): FenceGate {
  if (typeof tx?.query !== 'function')
    throw new InvalidArgumentError('tx', 'must be a connection of mysql2 or of mysql2/promise');
  if ('getConnection' in tx)
    throw new InvalidArgumentError(
      'tx',
      'must be the connection of the transaction; a pool protects no write',
    );
  const schema = new Schema(checkKeys(options, ['prefix']).prefix);
  const connection = (typeof tx.promise === 'function' ? tx.promise() : tx) as MysqlTransaction;
  return {
    async check(resource, fence) {
      checkFence(resource, fence);
      // As bytes: the text would depend on the character set of the user's connection.
      const bytes = Buffer.from(resource);
      if (bytes.length > RESOURCE_BYTES_MAX)
        throw new InvalidArgumentError('resource', `must be at most ${RESOURCE_BYTES_MAX} bytes`);
      try {
        await connection.query(schema.sql(RAISE), [bytes, `${fence}`]);
        const answer = await connection.query(schema.sql(LATEST), [bytes]);
        const [[row]] = answer as [[{ fence: string }]];
        assertNotStale(resource, fence, BigInt(row.fence));
      } catch (error) {
        throw errorNumberOf(error) === NO_SUCH_TABLE ? schema.missing() : error;
      }
    },
  };
}
