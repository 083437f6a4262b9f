import type { Clock } from '../../clock.ts';
import type { DiagnoseContext, Finding } from '../../store/finding.ts';
import type { ClaimRef, ClaimRequest, RenewChange, RenewOutcome, StoredClaim } from '../../store/store.ts';
import type { ConnectionPool } from '../shared/connection-pool.ts';
import type { PruneTimer } from '../shared/prune-timer.ts';
import { TABLE_RETRY } from '../shared/retry-after.ts';
import type {
  ClaimAnswer,
  QueueServer,
  QueueSubscription,
  ReleaseAnswer,
  SubscriptionEvents,
} from '../shared/server-queue-store.ts';
import type { Connection } from './connection.ts';
import { leasePool } from './connection-pool.ts';
import { DeadWaiterTimer } from './dead-waiter-timer.ts';
import { type DiagnosedStore, diagnose } from './diagnose.ts';
import type { ConnectionFactory } from './driver-connection.ts';
import { listNames, observe, readClaims } from './inspect.ts';
import { type LeaseBatch, leaseBatch } from './lease-batch.ts';
import { claimAnswer, claimOperation, isStillThere, type Operation } from './lease-statement.ts';
import { LeaseSubscription } from './lease-subscription.ts';
import { EVICTIONS } from './listening-connection.ts';
import { pruneTimer } from './pruner.ts';
import type { Schema } from './schema.ts';

export interface LeaseServerOptions {
  readonly clock: Clock;
  readonly schema: Schema;
  readonly connections: number;
  readonly queueMax: number;
}

/** The greatest `fenceAbove` that is accepted: every lock needs greater fences later. */
const FENCE_MAX = 2n ** 62n;

/** The queues are in the tables of `migrations/`, and each operation is an SQL function. */
export class LeaseServer implements QueueServer {
  readonly kind = 'postgres';
  readonly label = 'PostgreSQL';
  readonly retry = {
    ...TABLE_RETRY,
    // A waiter lives for 120 s, and for 40 s while it is not subscribed (`waiter_life`).
    keepPositionMs: { min: 30_000, max: 45_000 },
    // A waiter that was woken and is stopped has five seconds to claim (`claim_limit`).
    firstMs: { min: 4_500, max: 5_500 },
    takeOverMs: { min: 4_500, max: 5_500 },
  };
  readonly #queueMax: number;
  readonly #pool: ConnectionPool<Connection>;
  readonly #batch: LeaseBatch;
  readonly #subscription: LeaseSubscription;
  readonly #pruning: PruneTimer;
  readonly #deadWaiters: DeadWaiterTimer;
  readonly #diagnosed: DiagnosedStore;
  #greatestFence = FENCE_MAX;

  constructor(factory: ConnectionFactory, { clock, schema, connections, queueMax }: LeaseServerOptions) {
    this.#queueMax = queueMax;
    this.#pool = leasePool(factory, { clock, schema, max: connections });
    this.#subscription = new LeaseSubscription(factory, clock);
    const channel = (): string | null => (this.#subscription.isUp ? this.#subscription.channel : null);
    this.#batch = leaseBatch({ clock, schema, pool: this.#pool, queueMax, channel });
    this.#pruning = pruneTimer(clock, this.#batch);
    this.#deadWaiters = new DeadWaiterTimer(clock, this.#batch);
    // One more connection listens.
    this.#diagnosed = {
      factory,
      connections: connections + 1,
      tables: { schema, migrates: schema.migrates },
    };
  }

  /** A fence that this store was given is accepted as `fenceAbove`, however great it is. */
  get fenceMax(): bigint {
    return this.#greatestFence;
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
      if (answer.fence > this.#greatestFence) this.#greatestFence = answer.fence;
      if (answer.isNew) this.#pruning.onNewRow();
      return answer;
    }
    // A pooler that seems to keep sessions apart may not do so, and then no wake-up arrives.
    const isForeign = !this.#subscription.isDirect;
    return { granted: false, endsInMs: answer.endsInMs, isHead: false, isForeign, serverTime: null };
  }

  async renew(
    { name, id }: ClaimRef,
    { ttlMs, note }: RenewChange,
    signal: AbortSignal | undefined,
  ): Promise<RenewOutcome> {
    const answer = await this.#run(
      { op: 'r', name, id, ttlMs, note: note ?? null, isBackground: true },
      signal,
    );
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

  async observe(name: string, forMs: number): Promise<boolean> {
    // All observers are registered again when it comes up.
    if (this.#subscription.isUp) await observe(this.#batch, name, this.#subscription.channel, forMs);
    return !this.#subscription.isPolling;
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
