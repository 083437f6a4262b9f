import { checkCount } from '../../checks.ts';
import { type Clock, systemClock } from '../../clock.ts';
import type { Store } from '../../store/store.ts';
import { queueMaxOf } from '../shared/queue-max.ts';
import { ServerQueueStore } from '../shared/server-queue-store.ts';
import type { Connector } from './connection.ts';
import { MysqlServer } from './mysql-server.ts';
import { Schema } from './schema.ts';

/** What of a MySQL store can be set. Programs that share locks must agree on the prefix. */
export interface MysqlStoreOptions {
  /** What the names of its tables begin with: 1 to 40 of a-z, 0-9 and _. Default `holdfast_`. */
  readonly prefix?: string | undefined;
  /**
   * Make them, or bring them up to date, when they are missing. Default true. False: for teams that
   * run what `holdfast migrations` prints.
   */
  readonly migrate?: boolean | undefined;
  /** How many connections the statements go over at most. Default 2. */
  readonly connections?: number | undefined;
  /** How many claims may wait for one lock. Default 10,000. */
  readonly queueMax?: number | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

/** Throws `InvalidArgumentError` for an option that cannot be used. */
export function leaseStore(connector: Connector, options: MysqlStoreOptions): Store {
  const { clock = systemClock, migrate = true } = options;
  const connections = checkCount('connections', options.connections ?? 2, 1, 16);
  const schema = new Schema(options.prefix, migrate);
  const server = new MysqlServer(clock, { connector, schema, connections }, queueMaxOf(options));
  return new ServerQueueStore(server, clock);
}
