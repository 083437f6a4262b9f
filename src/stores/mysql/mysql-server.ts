import { checkCount } from '../../checks.ts';
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
import type { PruneTimer } from '../shared/prune-timer.ts';
import { queueMaxOf } from '../shared/queue-max.ts';
import { TABLE_RETRY } from '../shared/retry-after.ts';
import {
  type ClaimAnswer,
  type QueueServer,
  type QueueSubscription,
  type ReleaseAnswer,
  type ReleaseRequest,
  ServerQueueStore,
  type SubscriptionEvents,
} from '../shared/server-queue-store.ts';
import { Claims, type Operation } from './claims.ts';
import type { Connector } from './connection.ts';
import { type DiagnosedStore, diagnose } from './diagnose.ts';
import { listNames } from './inspect.ts';
import { pruneTimer } from './pruner.ts';
import { Schema } from './schema.ts';

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

/** Throws `InvalidArgumentError` for an option that cannot be used. */
export function leaseStore(connector: Connector, options: MysqlStoreOptions): Store {
  const { clock = systemClock } = options;
  return new ServerQueueStore(new MysqlServer(connector, clock, options), clock);
}

/**
 * The queues are rows of the table `holdfast_locks` of `migrations/`. `RowQueue` applies the
 * operations to a row, and `Poller` finds the rows that others have changed.
 */
export class MysqlServer implements QueueServer {
  readonly kind = 'mysql';
  readonly label = 'MySQL';
  /** Far below the greatest BIGINT. */
  readonly fenceMax = 2n ** 62n;
  /**
   * A waiter that cannot be woken must have asked again before `ALIVE_US` has passed, also when one
   * time in between was too soon for a report (`KEEP_US`). The poller wakes those that can be woken.
   */
  readonly retry = { ...TABLE_RETRY, keepUnsubscribedMs: { min: 1_500, max: 2_400 } };
  readonly #diagnosed: DiagnosedStore;
  readonly #queueMax: number;
  readonly #claims: Claims;
  readonly #pruning: PruneTimer;

  constructor(connector: Connector, clock: Clock, options: MysqlStoreOptions) {
    const schema = new Schema(options.prefix, options.migrate);
    const connections = checkCount('connections', options.connections ?? 2, 1, 16);
    this.#diagnosed = { connector, schema, connections };
    this.#queueMax = queueMaxOf(options);
    this.#claims = new Claims(clock, this.#diagnosed, () => this.#pruning.onNewRow());
    this.#pruning = pruneTimer(clock, this.#claims);
  }

  subscribe(events: SubscriptionEvents): QueueSubscription {
    this.#claims.poller.events = events;
    return this.#claims.poller;
  }

  assertOpen(): void {
    this.#claims.pool.assertOpen();
  }

  claim(request: ClaimRequest, signal: AbortSignal | undefined): Promise<ClaimAnswer> {
    const { name, id, ttlMs, note, fenceAbove, mode } = request;
    const values = [`${fenceAbove}`, id, `${ttlMs}`, `${ttlMs}`, note, name] as const;
    const operation: Operation<ClaimAnswer> = {
      name,
      apply: (queue) => queue.claim(request, this.#queueMax),
      alone: mode.kind === 'exclusive' ? [this.#claims.statements.CLAIM, ...values] : undefined,
      answer: (fence) => ({ granted: true, fence }),
    };
    return this.#claims.run(operation, signal);
  }

  renew(claim: ClaimRef, change: RenewChange, signal: AbortSignal | undefined): Promise<RenewOutcome> {
    const { name } = claim;
    return this.#claims.run(
      { name, apply: (queue) => queue.renew(claim, change), isBackground: true },
      signal,
    );
  }

  release(request: ReleaseRequest, signal: AbortSignal | undefined): Promise<ReleaseAnswer> {
    const { name, id, hasWaited } = request;
    const operation: Operation<ReleaseAnswer> = {
      name,
      apply: (queue) => queue.release(request),
      alone: hasWaited ? undefined : [this.#claims.statements.RELEASE, name, id],
      answer: () => 'removed',
    };
    return this.#claims.run(operation, signal);
  }

  /** The server cannot report changes. */
  async observe(): Promise<boolean> {
    return false;
  }

  read(name: string, signal: AbortSignal | undefined): Promise<readonly StoredClaim[]> {
    return this.#claims.run({ name, apply: (queue) => queue.read() }, signal);
  }

  list(prefix: string, signal: AbortSignal | undefined): AsyncIterable<string> {
    return listNames(this.#claims, prefix, signal);
  }

  async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    this.assertOpen();
    return await diagnose(this.#diagnosed, context);
  }

  async close(): Promise<void> {
    this.#pruning.close();
    await this.#claims.close();
  }
}
