import type { Clock } from '../../clock.ts';
import { HoldfastError } from '../../errors.ts';
import { ConnectionPool as SharedPool } from '../shared/connection-pool.ts';
import { Connection } from './connection.ts';
import type { ConnectionFactory } from './driver-connection.ts';
import { failureOf } from './failure.ts';
import { isMigrated, migrate } from './migrate.ts';
import type { Schema } from './schema.ts';

export interface ConnectionPoolOptions {
  readonly clock: Clock;
  readonly schema: Schema;
  /** The most connections at once. */
  readonly max: number;
  /** Run the migrations that the schema lacks. */
  readonly migrates: boolean;
}

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
    WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END`;

/** Connections that are set up, to a schema that is migrated. */
export class ConnectionPool extends SharedPool<Connection> {
  #isMigrated = false;

  constructor(factory: ConnectionFactory, { clock, schema, max, migrates }: ConnectionPoolOptions) {
    const setUp = async (connection: Connection): Promise<void> => {
      if (!this.#isMigrated && !(await isMigrated(connection, schema))) {
        if (!migrates) throw schema.missing();
        await migrate(connection, schema);
      }
      this.#isMigrated = true;
      if (connection.isDirect) await connection.run({ text: SET_UP });
    };
    super({
      clock,
      max,
      open: async (onClose) => {
        const connection = await Connection.open(factory, { clock, onClose });
        try {
          await setUp(connection);
          return connection;
        } catch (error) {
          connection.destroy();
          throw error;
        }
      },
      failureOf: (error) => (error instanceof HoldfastError ? error : failureOf(error)),
    });
  }

  /** The schema was dropped or replaced: the next connection checks it again. */
  forgetSchema(): void {
    this.#isMigrated = false;
    this.replaceAll();
  }
}
