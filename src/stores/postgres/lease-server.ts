import { checkCount, checkKeys } from '../../checks.ts';
import { type Clock, systemClock } from '../../clock.ts';
import type { DiagnoseContext, Finding } from '../../store/finding.ts';
import type {
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Store,
  StoredClaim,
} from '../../store/store.ts';
import type { ConnectionPool } from '../shared/connection-pool.ts';
import type { PruneTimer } from '../shared/prune-timer.ts';
import { queueMaxOf } from '../shared/queue-max.ts';
import { TABLE_RETRY } from '../shared/retry-after.ts';
import {
  type ClaimAnswer,
  type QueueServer,
  type QueueSubscription,
  type ReleaseAnswer,
  ServerQueueStore,
  type SubscriptionEvents,
} from '../shared/server-queue-store.ts';
import type { Connection, ConnectionFactory } from './connection.ts';
import { connectionFactoryOf, type PostgresPool } from './connection-factory.ts';
import { leasePool } from './connection-pool.ts';
import { type DiagnosedStore, diagnose } from './diagnose.ts';
import { listNames, readClaims } from './inspect.ts';
import {
  claimAnswer,
  claimOperation,
  isStillThere,
  type LeaseBatch,
  leaseBatch,
  type Operation,
} from './lease-batch.ts';
import { LeaseSubscription } from './lease-subscription.ts';
import { EVICTIONS } from './listening-connection.ts';
import { deadWaiterTimer, pruneTimer } from './pruner.ts';
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
 * the pool. It opens connections of its own with the same settings: up to `connections` for
 * statements, and one that listens once a claim waits. `close` ends them.
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
  const { clock = systemClock } = options;
  return new ServerQueueStore(new LeaseServer(factory, clock, options), clock);
}

/** The greatest `fenceAbove` that is accepted: every lock needs greater fences later. */
const FENCE_MAX = 2n ** 62n;
/** How many times a registration is tried while the lock's row is busy. */
const OBSERVE_TRIES = 20;

/** The queues are in the tables of `migrations/`, and each operation is an SQL function. */
export class LeaseServer implements QueueServer {
  readonly kind = 'postgres';
  readonly label = 'PostgreSQL';
  /** A fence that this store was given is accepted as `fenceAbove`, however great it is. */
  fenceMax = FENCE_MAX;
  readonly retry = {
    ...TABLE_RETRY,
    // A waiter lives for 120 s, and for 40 s while it is not subscribed (`waiter_life`).
    keepPositionMs: { min: 30_000, max: 45_000 },
    // A waiter that was woken and is stopped has five seconds to claim (`claim_limit`).
    firstMs: { min: 4_500, max: 5_500 },
  };
  readonly #queueMax: number;
  readonly #pool: ConnectionPool<Connection>;
  readonly #batch: LeaseBatch;
  readonly #subscription: LeaseSubscription;
  readonly #pruning: PruneTimer;
  readonly #deadWaiters: ReturnType<typeof deadWaiterTimer>;
  readonly #diagnosed: DiagnosedStore;

  constructor(factory: ConnectionFactory, clock: Clock, options: PostgresLeaseOptions) {
    const schema = new Schema(options.schema, options.migrate);
    const max = checkCount('connections', options.connections ?? 2, 1, 16);
    this.#queueMax = queueMaxOf(options);
    this.#pool = leasePool(factory, { clock, schema, max });
    this.#subscription = new LeaseSubscription(factory, clock);
    const channel = (): string | null => (this.#subscription.isUp ? this.#subscription.channel : null);
    this.#batch = leaseBatch({ clock, schema, pool: this.#pool, queueMax: this.#queueMax, channel });
    this.#pruning = pruneTimer(clock, this.#batch);
    this.#deadWaiters = deadWaiterTimer(clock, this.#batch);
    // One more connection listens.
    this.#diagnosed = { factory, connections: max + 1, schema };
  }

  subscribe(events: SubscriptionEvents): QueueSubscription {
    this.#subscription.events = events;
    return this.#subscription;
  }

  assertOpen(): void {
    this.#pool.assertOpen();
  }

  async claim(request: ClaimRequest, signal: AbortSignal | undefined): Promise<ClaimAnswer> {
    const answer = claimAnswer(request, await this.#run(claimOperation(request), signal), this.#queueMax);
    if (answer.granted) {
      if (answer.fence > this.fenceMax) this.fenceMax = answer.fence;
      if (answer.isNew) this.#pruning.onNewRow();
      return answer;
    }
    // A pooler that seems to keep sessions apart may not do so, and then no wake-up arrives.
    return { ...answer, isForeign: !this.#subscription.isDirect };
  }

  async renew(claim: ClaimRef, change: RenewChange, signal: AbortSignal | undefined): Promise<RenewOutcome> {
    const { name, id } = claim;
    const { ttlMs, note = null } = change;
    const answer = await this.#run({ op: 'r', name, id, ttlMs, note, isBackground: true }, signal);
    return isStillThere(answer) ? { held: true, validForMs: ttlMs } : { held: false };
  }

  async release({ name, id }: ClaimRef, signal: AbortSignal | undefined): Promise<ReleaseAnswer> {
    const answer = await this.#run({ op: 'd', name, id }, signal);
    if (!isStillThere(answer)) return 'gone';
    return answer === '2' ? 'handed' : 'removed';
  }

  async announceEviction({ id }: ClaimRef, signal: AbortSignal | undefined): Promise<void> {
    await this.#batch.add({ text: 'SELECT pg_notify($1, $2)::text', values: [EVICTIONS, id] }, signal);
  }

  async #run(operation: Operation, signal: AbortSignal | undefined): Promise<string> {
    this.#deadWaiters.onOperation();
    const [row] = await this.#batch.add(operation, signal);
    return row?.[0] ?? '';
  }

  async observe(name: string, forMs: number, signal: AbortSignal): Promise<boolean> {
    const { isUp, channel } = this.#subscription;
    const request = {
      text: 'SELECT holdfast.observe($1, $2, $3)::text',
      values: [name, channel, `${forMs}`],
    };
    // While it is not up, nothing is sent: every observer is registered again when it comes up.
    let isRegistered = !isUp;
    for (let tries = 0; !isRegistered && tries < OBSERVE_TRIES; tries += 1) {
      const [row] = await this.#batch.add(request, signal);
      isRegistered = row?.[0] === 'true';
    }
    return isRegistered && !this.#subscription.isPolling;
  }

  read(name: string, signal: AbortSignal | undefined): Promise<readonly StoredClaim[]> {
    return readClaims(this.#batch, name, signal);
  }

  list(prefix: string, signal: AbortSignal | undefined): AsyncIterable<string> {
    return listNames(this.#batch, prefix, signal);
  }

  async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    this.assertOpen();
    return await diagnose(this.#diagnosed, context);
  }

  async close(): Promise<void> {
    this.#pruning.close();
    this.#deadWaiters.close();
    await this.#pool.close();
  }
}
