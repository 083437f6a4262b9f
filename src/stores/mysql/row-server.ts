import type { Clock } from '../../clock.ts';
import type { DiagnoseContext, Finding } from '../../store/finding.ts';
import type { ClaimRef, ClaimRequest, RenewChange, RenewOutcome, StoredClaim } from '../../store/store.ts';
import { isDefinite, isStoreError } from '../../util/error-code.ts';
import type {
  ClaimAnswer,
  QueueServer,
  ReleaseAnswer,
  ReleaseRequest,
  SubscriptionEvents,
} from '../shared/server-queue-store.ts';
import { Subscription } from '../shared/subscription.ts';
import { LocalWaiters } from './local-waiters.ts';
import type { RowReading } from './lock-row.ts';
import { type KnownRow, Poller } from './poller.ts';
import type { Operation, RowView } from './row-operations.ts';
import { NOBODY, RowQueue } from './row-queue.ts';

/** How a claim, a renewal or a release goes to the server. */
export interface RowOperations {
  /** `isContended`: the lock had other claims a moment ago. */
  claim(request: ClaimRequest, isContended: boolean): Operation<ClaimAnswer>;
  renew(claim: ClaimRef, change: RenewChange): Operation<RenewOutcome>;
  release(claim: ClaimRef, isContended: boolean): Operation<ReleaseAnswer>;
}

/**
 * A table with one row for each lock. A write compares the version of the row, and fails if it has
 * changed.
 */
export interface RowTable extends RowOperations {
  readonly kind: string;
  readonly label: string;
  readonly fenceMax: bigint;
  assertOpen(): void;
  run<Result>(operation: Operation<Result>, signal: AbortSignal | undefined): Promise<Result>;
  /**
   * Resolves to a reading for each lock. The claims may be left out where the version is the known
   * one.
   */
  read(known: readonly KnownRow[], signal?: AbortSignal): Promise<readonly RowReading[]>;
  /** The rows whose names begin with `prefix`. */
  list(prefix: string, signal: AbortSignal | undefined): AsyncIterable<RowReading>;
  diagnose(context: DiagnoseContext): Promise<readonly Finding[]>;
  close(): Promise<void>;
}

/** The backoff after a failed poll. */
const LOOK_AGAIN_MS = { min: 100, max: 5_000 };

/**
 * A server that keeps each lock as a row. `RowQueue` applies the operations to a row, and `Poller`
 * finds the rows that others have changed.
 */
export class RowServer implements QueueServer {
  readonly retry = {
    keepPositionMs: { min: 25_000, max: 35_000 },
    keepUnsubscribedMs: { min: 12_000, max: 18_000 },
    afterEndMs: { min: 2, max: 25 },
    unsubscribedMs: { min: 250, max: 500 },
    foreignHeadMs: { min: 500, max: 1_000 },
    foreignMs: { min: 500, max: 1_000 },
  };
  readonly pushesGrants = false;
  readonly #table: RowTable;
  readonly #waiters: LocalWaiters;
  readonly #poller: Poller;
  readonly #subscription: Subscription<never>;
  #events: SubscriptionEvents | null = null;

  constructor(clock: Clock, makeTable: (view: RowView) => RowTable) {
    this.#waiters = new LocalWaiters(clock);
    this.#table = makeTable({ own: this.#waiters, onLook: (queue) => this.#poller.onLook(queue) });
    this.#poller = new Poller({
      clock,
      waiters: this.#waiters,
      events: () => this.#events,
      read: (known) => this.#table.read(known),
      keep: (name) => void this.#table.run(keepOperation(name), undefined).catch(() => {}),
    });
    this.#subscription = new Subscription<never>({
      clock,
      open: (events) => this.#poller.open(events),
      retryMs: LOOK_AGAIN_MS,
      isWanted: () => this.#events?.isWanted() === true,
      onUp: () => this.#events?.onGap(),
      onDown: () => this.#events?.onGap(),
      onMessage: () => {},
    });
  }

  get kind(): string {
    return this.#table.kind;
  }

  get label(): string {
    return this.#table.label;
  }

  get fenceMax(): bigint {
    return this.#table.fenceMax;
  }

  subscribe(events: SubscriptionEvents): Subscription<never> {
    this.#events = events;
    return this.#subscription;
  }

  assertOpen(): void {
    this.#table.assertOpen();
  }

  async claim(request: ClaimRequest, signal: AbortSignal | undefined): Promise<ClaimAnswer> {
    const isContended = this.#waiters.has(request.name);
    const isNew = request.wait && this.#waiters.add(request);
    try {
      const answer = await this.#table.run(this.#table.claim(request, isContended), signal);
      if (answer.granted) this.#waiters.remove(request);
      return answer;
    } catch (error) {
      // No release follows a claim that has not reached the table, unless an earlier request may have.
      if (isDefinite(error) && (isNew || !isStoreError(error))) this.#waiters.remove(request);
      throw error;
    }
  }

  renew(claim: ClaimRef, change: RenewChange, signal: AbortSignal | undefined): Promise<RenewOutcome> {
    return this.#table.run(this.#table.renew(claim, change), signal);
  }

  async release(request: ReleaseRequest, signal: AbortSignal | undefined): Promise<ReleaseAnswer> {
    const isContended = request.hasWaited || this.#waiters.has(request.name);
    try {
      return await this.#table.run(this.#table.release(request, isContended), signal);
    } finally {
      // Not earlier: another operation would take the waiter for a leftover, and remove it.
      this.#waiters.remove(request);
    }
  }

  observe(name: string, forMs: number): Promise<void> {
    return this.#poller.observe(name, forMs > 0);
  }

  async read(name: string, signal: AbortSignal | undefined): Promise<readonly StoredClaim[]> {
    const readings = await this.#table.read([[name, null]], signal);
    return readings.flatMap((reading) => new RowQueue(reading, NOBODY).read());
  }

  async *list(prefix: string, signal: AbortSignal | undefined): AsyncIterable<string> {
    for await (const reading of this.#table.list(prefix, signal))
      if (new RowQueue(reading, NOBODY).read().length > 0) yield reading.row.name;
  }

  diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    return this.#table.diagnose(context);
  }

  async close(): Promise<void> {
    this.#poller.close();
    this.#waiters.clear();
    await this.#table.close();
  }
}

/** Reports that the waiters of this store are alive. */
function keepOperation(name: string): Operation<null> {
  const apply = (queue: RowQueue): null => {
    queue.keep();
    return null;
  };
  return { name, apply, isBackground: true };
}
