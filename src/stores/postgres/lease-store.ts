import { type Clock, systemClock } from '../../clock.ts';
import { DEFAULTS } from '../../options.ts';
import type { Store } from '../../store/store.ts';
import { ServerQueueStore } from '../shared/server-queue-store.ts';
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

const CONNECTIONS = 2;

/** Throws `InvalidArgumentError` for a schema name that cannot be used. */
export function leaseStore(factory: ConnectionFactory, options: PostgresLeaseOptions): Store {
  const { clock = systemClock, migrate = true, connections = CONNECTIONS } = options;
  const server = new LeaseServer(factory, {
    clock,
    schema: new Schema(options.schema, migrate),
    connections,
    queueMax: options.queueMax ?? DEFAULTS.queueMax,
  });
  return new ServerQueueStore(server, clock);
}
