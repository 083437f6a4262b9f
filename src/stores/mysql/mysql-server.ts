import { checkCount, checkKeys } from '../../checks.ts';
import { type Clock, systemClock } from '../../clock.ts';
import type { Store } from '../../store/store.ts';
import { queueMaxOf } from '../shared/queue-max.ts';
import { TABLE_RETRY } from '../shared/retry-after.ts';
import {
  type ClaimAnswer,
  type QueueServer,
  type ReleaseAnswer,
  ServerQueueStore,
} from '../shared/server-queue-store.ts';
import { Claims, type Operation } from './claims.ts';
import type { ConnectionFactory } from './connection.ts';
import { connectionFactoryOf, type MysqlPool } from './connection-factory.ts';
import { diagnose } from './diagnose.ts';
import { listNames } from './inspect.ts';
import { pruneTimer } from './pruner.ts';
import { Schema } from './schema.ts';
import { CLAIM, RELEASE } from './statements.ts';

/** Options of a MySQL store. Programs that share locks must agree on the prefix. */
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

/**
 * Leases in tables of their own, in MySQL 8 or in MariaDB 10.6 or newer. The pool stays yours: its
 * connections are neither used nor closed. The store opens up to two of its own, with the same settings;
 * `close` ends them.
 *
 * Throws `InvalidArgumentError` for a pool or an option that cannot be used. The first command makes the
 * tables unless told not to, and rejects with an `UnsupportedError` when that is not allowed.
 */
export function mysqlStore(pool: MysqlPool, options: MysqlStoreOptions = {}): Store {
  checkKeys(options, ['prefix', 'migrate', 'connections', 'queueMax', 'clock']);
  return leaseStore(connectionFactoryOf(pool), options);
}

/** Throws `InvalidArgumentError` for an option that cannot be used. */
export function leaseStore(factory: ConnectionFactory, options: MysqlStoreOptions): Store {
  const { clock = systemClock } = options;
  return new ServerQueueStore(mysqlServer(factory, clock, options), clock);
}

/**
 * A waiter that cannot be woken must have asked again before `ALIVE_US` has passed, also when one time in
 * between was too soon for a report (`KEEP_US`). The poller wakes those that can be woken.
 */
const RETRY = { ...TABLE_RETRY, keepUnsubscribedMs: { min: 1_500, max: 2_400 } };

/**
 * The queues are rows of the table `holdfast_locks` of `migrations/`. `RowQueue` applies the
 * operations to a row, and `Poller` finds the rows that others have changed.
 */
function mysqlServer(factory: ConnectionFactory, clock: Clock, options: MysqlStoreOptions): QueueServer {
  const schema = new Schema(options.prefix, options.migrate);
  const connections = checkCount('connections', options.connections ?? 2, 1, 16);
  const queueMax = queueMaxOf(options);
  const diagnosed = { factory, schema, connections };
  const claims = new Claims(clock, diagnosed, () => pruning.onNewRow());
  const pruning = pruneTimer(clock, claims);
  const { poller, pool } = claims;
  return {
    kind: 'mysql',
    label: 'MySQL',
    // Far below the greatest BIGINT.
    fenceMax: 2n ** 62n,
    retry: RETRY,
    subscribe(events) {
      poller.events = events;
      return poller;
    },
    assertOpen: () => pool.assertOpen(),
    claim(request, signal) {
      const { name, id, ttlMs, note, fenceAbove, mode } = request;
      const alone = [CLAIM, `${fenceAbove}`, id, `${ttlMs}`, `${ttlMs}`, note, name] as const;
      const operation: Operation<ClaimAnswer> = {
        name,
        apply: (queue) => queue.claim(request, queueMax),
        alone: mode.kind === 'exclusive' ? alone : undefined,
        answer: (fence) => ({ granted: true, fence }),
      };
      return claims.run(operation, signal);
    },
    renew(claim, change, signal) {
      const { name } = claim;
      return claims.run({ name, apply: (queue) => queue.renew(claim, change), isBackground: true }, signal);
    },
    release(request, signal) {
      const { name, id, hasWaited } = request;
      const operation: Operation<ReleaseAnswer> = {
        name,
        apply: (queue) => queue.release(request),
        alone: hasWaited ? undefined : [RELEASE, name, id],
        answer: () => 'removed',
      };
      return claims.run(operation, signal);
    },
    // The server cannot report changes.
    observe: async () => false,
    read: (name, signal) => claims.run({ name, apply: (queue) => queue.read() }, signal),
    list: (prefix, signal) => listNames(claims, prefix, signal),
    async diagnose(context) {
      pool.assertOpen();
      return await diagnose(diagnosed, context);
    },
    async close() {
      pruning.close();
      await pool.close();
    },
  };
}
