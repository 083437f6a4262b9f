import { type Clock, systemClock } from '../../clock.ts';
import type { ClaimRef, ClaimRequest, Mode } from '../../store/store.ts';
import type { RedisConnection } from '../redis/connection.ts';
import { Keys } from '../redis/keys.ts';
import { ReadinessCheck } from '../redis/readiness-check.ts';
import { RedisStore } from '../redis/redis-store.ts';
import { scriptBatch } from '../redis/script-batch.ts';
import type { Batch } from '../shared/batch.ts';
import { type MergeRequest, mergeOperation, voteOperation, withdrawOperation } from './operations.ts';

export interface VoteRequest extends Pick<ClaimRequest, 'name' | 'id' | 'mode' | 'ttlMs' | 'note'> {
  /** The fence that the node gives unless its counter is at or above it. */
  readonly proposed: bigint;
}

export type NodeVote =
  /** `isKept`: the node already had this claim. */
  | { readonly granted: true; readonly fence: bigint; readonly isKept: boolean }
  | {
      readonly granted: false;
      /** When the hold in the way expires; `null`: never. */
      readonly endsMs: number | null;
      /** The id of the holder; `''` when several claims share the lock. */
      readonly holder: string;
      /** The holder is another program. */
      readonly isForeign: boolean;
    }
  | { readonly granted: false; readonly mismatch: Mode };

/** What a Redlock uses of a node. */
export type RedlockNode = Pick<RedisNode, 'label' | 'serverId' | 'vote' | 'merge' | 'withdraw' | 'reach'> &
  Pick<RedisNode, 'renew' | 'release' | 'evict' | 'watch' | 'read' | 'list' | 'close'>;

export interface RedisNodeOptions {
  readonly prefix: string;
  readonly label: string;
  readonly allowEviction: boolean;
  readonly clock?: Clock | undefined;
}

/**
 * One server of a Redlock: a Redis store, and calls that only Redlock makes. It grants without a
 * queue, and a grant has a fence above every fence that it has given before.
 */
export class RedisNode extends RedisStore {
  /** Names the node in errors. */
  readonly label: string;
  readonly #votes: Batch<VoteRequest, NodeVote>;
  readonly #merges: Batch<MergeRequest, bigint | null>;
  readonly #withdrawals: Batch<ClaimRef, boolean>;

  constructor(connection: RedisConnection, options: RedisNodeOptions, ownsClient: boolean) {
    const { prefix, label, allowEviction, clock = systemClock } = options;
    const readiness = new ReadinessCheck(connection, allowEviction, clock);
    const keys = new Keys(prefix);
    // Shared with the store, so that the server is checked only once.
    super(connection, { clock }, ownsClient, { readiness, keys });
    this.label = label;
    this.#votes = scriptBatch(readiness, clock, voteOperation(keys));
    this.#merges = scriptBatch(readiness, clock, mergeOperation(keys));
    this.#withdrawals = scriptBatch(readiness, clock, withdrawOperation(keys));
  }

  /** Identifies the server: known after the first vote, if the user may ask for it. */
  get serverId(): string | null {
    return this.readiness.serverId;
  }

  vote(request: VoteRequest, signal: AbortSignal): Promise<NodeVote> {
    return this.#votes.add(request, signal);
  }

  /**
   * Raises the fence of a claim and the node's counter of fences to at least this one, in one step.
   * Resolves to the fence that the claim has then, or to `null` if the node does not hold it.
   */
  merge({ name, id }: ClaimRef, fence: bigint, signal: AbortSignal): Promise<bigint | null> {
    return this.#merges.add({ name, id, fence }, signal);
  }

  /** Takes back a claim that did not get a majority, without waking waiters. */
  withdraw(claim: ClaimRef, signal: AbortSignal): Promise<boolean> {
    return this.#withdrawals.add(claim, signal);
  }

  /** For the checks of `diagnose`. Resolves also if the store refuses to use the server. */
  async reach(signal: AbortSignal): Promise<this> {
    await this.readiness.untilConnected(signal);
    return this;
  }
}
