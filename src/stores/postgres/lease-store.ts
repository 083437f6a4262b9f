import { checkCount, checkKeys } from '../../checks.ts';
import { type Clock, systemClock } from '../../clock.ts';
import type { Store } from '../../store/store.ts';
import { queueMaxOf } from '../shared/queue-max.ts';
import { ServerQueueStore } from '../shared/server-queue-store.ts';
import { connectionFactoryOf, type PostgresPool } from './connection-factory.ts';
import type { ConnectionFactory } from './driver-connection.ts';
import { LeaseServer } from './lease-server.ts';
import { Schema } from './schema.ts';

/** Options of a lease store. Programs that share locks must use the same schema. */
export interface PostgresLeaseOptions {
  /** The schema of the tables and functions: 1 to 40 of a-z, 0-9 and _. Default `holdfast`. */
  readonly schema?: string | undefined;
  /**
   * Create or update the tables and functions when needed. Default true. False: for teams that run
   * the script that `holdfast migrations` prints.
   */
  readonly migrate?: boolean | undefined;
  /** The most connections for statements, beside the one that listens. Default 2. */
  readonly connections?: number | undefined;
  /** How many claims may wait for one lock. Default 10,000. */
  readonly queueMax?: number | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

/**
 * Leases in tables, in PostgreSQL 12 or newer. The store neither uses nor closes the connections of
 * the pool. It opens up to two of its own with the same settings for statements, and one that
 * listens once a claim waits. `close` ends them.
 *
 * Throws `InvalidArgumentError` for a pool or an option that cannot be used. The first command
 * creates the tables, unless `migrate` is false, and rejects with an `UnsupportedError` when this
 * user may not create them.
 */
export function postgresLeaseStore(pool: PostgresPool, options: PostgresLeaseOptions = {}): Store {
  checkKeys(options, ['schema', 'migrate', 'connections', 'queueMax', 'clock']);
  return leaseStore(connectionFactoryOf(pool), options);
}

/** Throws `InvalidArgumentError` for an option that cannot be used. */
export function leaseStore(factory: ConnectionFactory, options: PostgresLeaseOptions): Store {
  const { clock = systemClock, migrate = true, connections = 2 } = options;
  const server = new LeaseServer(factory, {
    clock,
    schema: new Schema(options.schema, migrate),
    connections: checkCount('connections', connections, 1, 16),
    queueMax: queueMaxOf(options),
  });
  return new ServerQueueStore(server, clock);
}
