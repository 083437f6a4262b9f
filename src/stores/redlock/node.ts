import { type Clock, systemClock } from '../../clock.ts';
import type { ClaimRef, Mode, RenewChange, RenewOutcome, Store, StoredClaim } from '../../store/store.ts';
import { sendAlone, untilConnected } from '../redis/call.ts';
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
  /**
   * Identifies the server; `null` if it is not known. It is known after the first vote, if the user
   * may ask for it.
   */
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
export class RedisNode implements RedlockNode {
  readonly label: string;
  readonly #store: RedisStore;
  readonly #readiness: ReadinessCheck;
  readonly #keys: Keys;
  readonly #votes: Batch<VoteRequest, NodeVote>;
  readonly #merges: Batch<MergeRequest, bigint | null>;
  readonly #withdrawals: Batch<ClaimRef, boolean>;
  #serverId: string | null = null;
  #isIdentified = false;

  constructor(connection: RedisConnection, options: RedisNodeOptions, ownsClient: boolean) {
    const { prefix, label, allowEviction, clock = systemClock } = options;
    this.label = label;
    this.#readiness = new ReadinessCheck(connection, allowEviction, clock);
    const keys = new Keys(prefix);
    this.#keys = keys;
    // Shared with the store, so that the server is checked only once.
    this.#store = new RedisStore(connection, { clock }, ownsClient, { readiness: this.#readiness, keys });
    this.#votes = scriptBatch(this.#readiness, clock, voteOperation(keys));
    this.#merges = scriptBatch(this.#readiness, clock, mergeOperation(keys));
    this.#withdrawals = scriptBatch(this.#readiness, clock, withdrawOperation(keys));
  }

  get serverId(): string | null {
    return this.#serverId;
  }

  vote(request: VoteRequest, signal: AbortSignal): Promise<NodeVote> {
    if (this.#isIdentified) return this.#votes.add(request, signal);
    return this.#identify(signal).then(() => this.#votes.add(request, signal));
  }

  merge({ name, id }: ClaimRef, fence: bigint, signal: AbortSignal): Promise<bigint | null> {
    return this.#merges.add({ name, id, fence }, signal);
  }

  withdraw(claim: ClaimRef, signal: AbortSignal): Promise<boolean> {
    return this.#withdrawals.add(claim, signal);
  }

  renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    return this.#store.renew(claim, change, signal);
  }

  release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return this.#store.release(claim, signal);
  }

  evict(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return this.#store.evict(claim, signal);
  }

  watch(target: { readonly name: string }, onChange: (mayGrant: boolean) => void): Promise<AsyncDisposable> {
    return this.#store.watch(target, onChange);
  }

  read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]> {
    return this.#store.read(name, signal);
  }

  list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    return this.#store.list(prefix, signal);
  }

  async reach(signal: AbortSignal): Promise<DiagnosedNode> {
    await untilConnected(this.#readiness, signal);
    return {
      label: this.label,
      connection: this.#readiness.connection,
      keys: this.#keys,
      readiness: this.#readiness,
      subscription: this.#store.subscription,
    };
  }

  async close(): Promise<void> {
    this.#readiness.close();
    await this.#store.close();
  }

  /** Two clients may lead to one server, whose votes would count twice. */
  async #identify(signal: AbortSignal): Promise<void> {
    try {
      const info = String(await sendAlone(this.#readiness, 'info', ['server'], signal));
      this.#serverId = /^run_id:(\w+)/m.exec(info)?.[1] ?? null;
    } catch (error) {
      // Without the right to send INFO, the servers are assumed to be different.
      if (!/\bNOPERM\b/.test(String(error))) throw error;
    }
    this.#isIdentified = true;
  }
}
