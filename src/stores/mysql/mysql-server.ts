import type { Clock } from '../../clock.ts';
import type { DiagnoseContext, Finding } from '../../store/finding.ts';
import type { ClaimRef, ClaimRequest, RenewChange, RenewOutcome, StoredClaim } from '../../store/store.ts';
import { ConnectionPool } from '../shared/connection-pool.ts';
import type { PruneTimer } from '../shared/prune-timer.ts';
import { RecentIds } from '../shared/recent-ids.ts';
import { TABLE_RETRY } from '../shared/retry-after.ts';
import type {
  ClaimAnswer,
  QueueServer,
  QueueSubscription,
  ReleaseAnswer,
  ReleaseRequest,
  SubscriptionEvents,
} from '../shared/server-queue-store.ts';
import { type Claims, claimsBatch, type Operation } from './claims.ts';
import { Connection } from './connection.ts';
import { type DiagnosedStore, diagnose } from './diagnose.ts';
import { failures } from './failure.ts';
import { listNames } from './inspect.ts';
import { Poller } from './poller.ts';
import { pruneTimer } from './pruner.ts';
import { type Statements, statementsFor } from './statements.ts';

export interface MysqlServerOptions extends DiagnosedStore {
  readonly clock: Clock;
  readonly queueMax: number;
}

/**
 * The queues are rows of the table `holdfast_locks` of `migrations/`. `RowQueue` applies the
 * operations to a row, and `Poller` finds the rows that others have changed.
 */
export class MysqlServer implements QueueServer {
  readonly kind = 'mysql';
  readonly label = 'MySQL';
  /** Far below where the server's numbers end. */
  readonly fenceMax = 2n ** 62n;
  readonly pushesGrants = false;
  readonly retry = TABLE_RETRY;
  readonly #options: MysqlServerOptions;
  readonly #statements: Statements;
  readonly #pool: ConnectionPool<Connection>;
  readonly #claims: Claims;
  readonly #poller: Poller;
  readonly #pruning: PruneTimer;
  /** Claims whose release has failed. */
  readonly #leftovers = new RecentIds();

  constructor(options: MysqlServerOptions) {
    const { clock, connector, schema, connections: max } = options;
    const tag = Math.floor(clock.random() * 2 ** 47).toString(36);
    this.#options = options;
    this.#statements = statementsFor(schema);
    this.#pool = new ConnectionPool({
      clock,
      max,
      schema,
      connect: (onClose, signal) => Connection.open(connector, clock, onClose, { signal }),
      failureOf: failures.failureOf,
    });
    this.#claims = claimsBatch({
      clock,
      pool: this.#pool,
      statements: this.#statements,
      reader: { tag, leftovers: this.#leftovers },
      known: (name) => this.#poller.rowOf(name),
      onLook: (queue) => {
        if (queue.isNew && queue.isChanged) this.#pruning.onNewRow();
        this.#poller.onLook(queue);
      },
    });
    this.#poller = new Poller({
      clock,
      tag,
      look: (name) => this.#run({ name, apply: (queue) => queue.keep(), isBackground: true }),
    });
    this.#pruning = pruneTimer(clock, this.#claims, this.#statements);
  }

  subscribe(events: SubscriptionEvents): QueueSubscription {
    this.#poller.events = events;
    return this.#poller;
  }

  assertOpen(): void {
    this.#pool.assertOpen();
  }

  claim(request: ClaimRequest, signal: AbortSignal | undefined): Promise<ClaimAnswer> {
    const { name, id, ttlMs, note, fenceAbove, mode } = request;
    this.#leftovers.delete(id);
    const values = [`${fenceAbove}`, id, `${ttlMs}`, `${ttlMs}`, note, name] as const;
    const isAlone = mode.kind === 'exclusive' && !this.#isContended(name);
    const operation: Operation<ClaimAnswer> = {
      name,
      apply: (queue) => queue.claim(request, this.#options.queueMax),
      alone: isAlone ? [this.#statements.CLAIM, ...values] : undefined,
      answer: (fence) => ({ granted: true, fence }),
    };
    return this.#run(operation, signal);
  }

  renew(claim: ClaimRef, change: RenewChange, signal: AbortSignal | undefined): Promise<RenewOutcome> {
    const { name, id } = claim;
    const { ttlMs, note = null } = change;
    const operation: Operation<RenewOutcome> = {
      name,
      apply: (queue) => queue.renew(claim, change),
      alone: [this.#statements.RENEW, `${ttlMs}`, `${ttlMs}`, note, name, id],
      answer: () => ({ held: true, validForMs: ttlMs }),
      isBackground: true,
    };
    return this.#run(operation, signal);
  }

  async release(request: ReleaseRequest, signal: AbortSignal | undefined): Promise<ReleaseAnswer> {
    const { name, id, hasWaited } = request;
    const operation: Operation<ReleaseAnswer> = {
      name,
      apply: (queue) => queue.release(request),
      alone: hasWaited || this.#isContended(name) ? undefined : [this.#statements.RELEASE, name, id],
      answer: () => 'removed',
    };
    try {
      const answer = await this.#run(operation, signal);
      this.#leftovers.delete(id);
      return answer;
    } catch (error) {
      this.#leftovers.add(id);
      throw error;
    }
  }

  observe(name: string, forMs: number): Promise<void> {
    return this.#poller.observe(name, forMs > 0);
  }

  read(name: string, signal: AbortSignal | undefined): Promise<readonly StoredClaim[]> {
    return this.#run({ name, apply: (queue) => queue.read() }, signal);
  }

  list(prefix: string, signal: AbortSignal | undefined): AsyncIterable<string> {
    return listNames(this.#claims, this.#statements, prefix, signal);
  }

  async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    this.assertOpen();
    return await diagnose(this.#options, context);
  }

  async close(): Promise<void> {
    this.#pruning.close();
    await this.#poller.close();
    await this.#pool.close();
  }

  /** Other claims are in the way, so that a statement for a lock without them would be in vain. */
  #isContended(name: string): boolean {
    return (this.#poller.rowOf(name)?.queue.length ?? 0) > 0;
  }

  #run<Answer>(operation: Operation<Answer>, signal?: AbortSignal): Promise<Answer> {
    return this.#claims.add(operation, signal) as Promise<Answer>;
  }
}
