import type { Clock } from '../../clock.ts';
import type { DiagnoseContext, Finding } from '../../store/finding.ts';
import type { ClaimRef, ClaimRequest, RenewChange, RenewOutcome, StoredClaim } from '../../store/store.ts';
import type { PruneTimer } from '../shared/prune-timer.ts';
import { TABLE_RETRY } from '../shared/retry-after.ts';
import type {
  ClaimAnswer,
  QueueServer,
  QueueSubscription,
  ReleaseAnswer,
  ReleaseRequest,
  SubscriptionEvents,
} from '../shared/server-queue-store.ts';
import { Claims, type Operation } from './claims.ts';
import { type DiagnosedStore, diagnose } from './diagnose.ts';
import { listNames } from './inspect.ts';
import { pruneTimer } from './pruner.ts';

/**
 * The queues are rows of the table `holdfast_locks` of `migrations/`. `RowQueue` applies the
 * operations to a row, and `Poller` finds the rows that others have changed.
 */
export class MysqlServer implements QueueServer {
  readonly kind = 'mysql';
  readonly label = 'MySQL';
  /** Far below where the server's numbers end. */
  readonly fenceMax = 2n ** 62n;
  /** A waiter that is next has five seconds to ask. The poller says so for those that can be woken. */
  readonly retry = { ...TABLE_RETRY, keepUnsubscribedMs: { min: 2_000, max: 3_000 } };
  readonly #diagnosed: DiagnosedStore;
  readonly #queueMax: number;
  readonly #claims: Claims;
  readonly #pruning: PruneTimer;

  constructor(clock: Clock, diagnosed: DiagnosedStore, queueMax: number) {
    this.#diagnosed = diagnosed;
    this.#queueMax = queueMax;
    this.#claims = new Claims(clock, diagnosed, () => this.#pruning.onNewRow());
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
