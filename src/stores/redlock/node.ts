import { type Clock, systemClock } from '../../clock.ts';
import type { ClaimRef, Mode, Store } from '../../store/store.ts';
import { untilConnected } from '../redis/call.ts';
import type { RedisConnection } from '../redis/connection.ts';
import { Keys } from '../redis/keys.ts';
import { ReadinessCheck } from '../redis/readiness-check.ts';
import { RedisStore } from '../redis/redis-store.ts';
import { scriptBatch } from '../redis/script-batch.ts';
import type { Batch } from '../shared/batch.ts';
import type { DiagnosedNode } from './diagnose.ts';
import { type MergeRequest, mergeOperation, voteOperation, withdrawOperation } from './operations.ts';

/** A claim that one node votes on. */
export interface VoteRequest extends ClaimRef {
  readonly mode: Mode;
  readonly ttlMs: number;
  readonly note: string;
  /** The fence that the node gives unless its counter is at or above it. */
  readonly proposed: bigint;
}

/** The holder of a lock at one node: one claim, several claims, or another program. */
export type HolderKind = 'one' | 'several' | 'foreign';

/** The vote of one node. `endsMs`: when the hold in the way expires; `null`: never. */
export type NodeVote =
  /** `isKept`: the node already had this claim. */
  | { readonly granted: true; readonly fence: bigint; readonly isKept: boolean }
  | {
      readonly granted: false;
      readonly endsMs: number | null;
      readonly kind: HolderKind;
      readonly holder: string;
    }
  | { readonly granted: false; readonly mismatch: Mode };

/**
 * One server of a Redlock: a store that grants without a queue, and in which the fence of a granted
 * claim can be raised.
 *
 * A grant has a fence above every fence that the node has given, and the node's counter is at that
 * fence. `merge` raises the fence of a claim that the node still holds to at least this one, and
 * the counter with it, in one step. It resolves to the fence that the claim has then, or to `null`
 * if the claim is not there.
 */
export interface RedlockNode extends Omit<Store, 'claim' | 'diagnose' | 'traits' | 'watch'> {
  /** Names the node in errors. */
  readonly label: string;
  /** Identifies the server: known after the first vote, if the user may ask for it. */
  readonly serverId: string | null;
  vote(request: VoteRequest, signal: AbortSignal): Promise<NodeVote>;
  merge(claim: ClaimRef, fence: bigint, signal: AbortSignal): Promise<bigint | null>;
  /** Takes back a claim that did not get a majority, without waking waiters. */
  withdraw(claim: ClaimRef, signal: AbortSignal): Promise<boolean>;
  /**
   * Resolves when the server has been reached, also if the store refuses to use it. Only for the
   * checks of `diagnose`.
   */
  reach?(signal: AbortSignal): Promise<DiagnosedNode>;
  /** `mayGrant`: a claim may be granted because of the change. */
  watch(target: { readonly name: string }, onChange: (mayGrant: boolean) => void): Promise<AsyncDisposable>;
}

export interface RedisNodeOptions {
  readonly prefix: string;
  readonly label: string;
  readonly allowEviction: boolean;
  readonly clock?: Clock | undefined;
}

/** A Redis server as a node: a Redis store, and the calls that only Redlock makes. */
export class RedisNode extends RedisStore implements RedlockNode {
  readonly label: string;
  readonly #readiness: ReadinessCheck;
  readonly #keys: Keys;
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
    this.#readiness = readiness;
    this.#keys = keys;
    this.#votes = scriptBatch(readiness, clock, voteOperation(keys));
    this.#merges = scriptBatch(readiness, clock, mergeOperation(keys));
    this.#withdrawals = scriptBatch(readiness, clock, withdrawOperation(keys));
  }

  get serverId(): string | null {
    return this.#readiness.serverId;
  }

  vote(request: VoteRequest, signal: AbortSignal): Promise<NodeVote> {
    return this.#votes.add(request, signal);
  }

  merge({ name, id }: ClaimRef, fence: bigint, signal: AbortSignal): Promise<bigint | null> {
    return this.#merges.add({ name, id, fence }, signal);
  }

  withdraw(claim: ClaimRef, signal: AbortSignal): Promise<boolean> {
    return this.#withdrawals.add(claim, signal);
  }

  async reach(signal: AbortSignal): Promise<DiagnosedNode> {
    await untilConnected(this.#readiness, signal);
    return {
      label: this.label,
      connection: this.#readiness.connection,
      keys: this.#keys,
      readiness: this.#readiness,
      subscription: this.subscription,
    };
  }
}
