import { ConnectionPool, type ConnectionPoolOptions } from '../shared/connection-pool.ts';
import { Connection, type ConnectionFactory } from './connection.ts';
import { notBegun } from './failure.ts';

/**
 * The settings of a direct connection. Plans stay right when a small table has grown. Each statement
 * sees what others have committed. A crash of the server cannot undo a grant. Behind a pooler,
 * `batch_anywhere` sets most of this for each call.
 */
const SET_UP = `SELECT
  set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false),
  set_config('plan_cache_mode', 'force_generic_plan', false), set_config('jit', 'off', false),
  set_config('default_transaction_isolation', 'read committed', false),
  CASE current_setting('synchronous_commit')
    WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END,
  current_setting('transaction_read_only')`;

/** Connections that are set up, to a schema that is migrated. */
export function leasePool(
  factory: ConnectionFactory,
  options: Pick<ConnectionPoolOptions<Connection>, 'clock' | 'schema' | 'max'>,
): ConnectionPool<Connection> {
  const { clock } = options;
  return new ConnectionPool({
    ...options,
    connect: (onClose, signal) => Connection.open(factory, { clock, onClose, signal }),
    setUp: async (connection) => {
      if (!connection.isDirect) return;
      const [settings] = await connection.run({ text: SET_UP });
      // When a server is refused here, the pool pauses before it connects again.
      if (settings?.at(-1) === 'on') throw new Error('this server is set to be read only');
    },
    notBegun,
  });
}
