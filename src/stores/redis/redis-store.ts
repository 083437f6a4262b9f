import { type Clock, systemClock } from '../../clock.ts';
import { ServerQueueStore } from '../shared/server-queue-store.ts';
import type { RedisConnection } from './connection.ts';
import { Keys } from './keys.ts';
import { ReadinessCheck } from './readiness-check.ts';
import { RedisServer } from './redis-server.ts';
import type { Replicating } from './replicated-store.ts';

/** Options of a Redis store. Programs that share locks must agree on the prefix. */
export interface RedisStoreOptions {
  /**
   * Put before every lock's name. Default `holdfast:`. With `''`, the key of a lock is its name, as
   * for other programs.
   */
  readonly prefix?: string | undefined;
  /** How many claims may wait for one lock. Default 10,000. */
  readonly queueMax?: number | undefined;
  /**
   * Accept a server that evicts keys when its memory is full: it may evict locks that are held.
   * Default false.
   */
  readonly allowEviction?: boolean | undefined;
  /**
   * How many replicas must have a grant or a renewal before it counts. A grant that did not reach
   * them in time is given back, and the claim rejects with a `StoreError`. Default 0.
   */
  readonly waitReplicas?: number | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

export class RedisStore extends ServerQueueStore implements Replicating {
  readonly server: RedisServer;
  readonly readiness: ReadinessCheck;
  readonly keys: Keys;

  /** `parts`: those that the caller uses as well. A Cluster and a Redlock make them. */
  constructor(
    connection: RedisConnection,
    options: RedisStoreOptions,
    ownsClient: boolean,
    parts?: { readonly readiness: ReadinessCheck; readonly keys: Keys },
  ) {
    const clock = options.clock ?? systemClock;
    const readiness =
      parts?.readiness ?? new ReadinessCheck(connection, options.allowEviction ?? false, clock);
    const keys = parts?.keys ?? new Keys(options.prefix ?? 'holdfast:');
    const server = new RedisServer(readiness, keys, { ...options, clock }, ownsClient);
    super(server, clock);
    this.server = server;
    this.readiness = readiness;
    this.keys = keys;
  }

  replicasWith(name: string, count: number, limitMs: number, signal?: AbortSignal): Promise<number> {
    return this.server.replicasWith(name, count, limitMs, signal);
  }

  /** No waiters, no observers, no pending requests, no handoff to check: the store can be dropped. */
  get isIdle(): boolean {
    return this.server.isIdle && this.isQuiet;
  }
}
