import { type Clock, systemClock } from '../../clock.ts';
import type { ClaimRef, RenewChange, RenewOutcome, StoredClaim } from '../../store/store.ts';
import { Batch } from '../redis/batch.ts';
import { sendAlone } from '../redis/call.ts';
import { Gate } from '../redis/gate.ts';
import { Keys } from '../redis/keys.ts';
import type { Link } from '../redis/link.ts';
import { RedisStore } from '../redis/redis-store.ts';
import type { NodeVote, QuorumNode, VoteRequest } from './node.ts';
import { type MergeRequest, mergeOperation, voteOperation, withdrawOperation } from './node-operations.ts';

export interface RedisNodeOptions {
  readonly prefix: string;
  readonly label: string;
  readonly allowEviction: boolean;
  readonly clock?: Clock | undefined;
}

/** One Redis server of a quorum: a Redis store, and the three calls that only a quorum makes. */
export class RedisNode implements QuorumNode {
  readonly label: string;
  readonly #store: RedisStore;
  readonly #gate: Gate;
  readonly #votes: Batch<VoteRequest, NodeVote>;
  readonly #merges: Batch<MergeRequest, bigint | null>;
  readonly #withdrawals: Batch<ClaimRef, boolean>;
  #serverId: string | null = null;
  #isIdentified = false;

  constructor(link: Link, options: RedisNodeOptions, ownsClient: boolean) {
    const { prefix, label, allowEviction, clock = systemClock } = options;
    this.label = label;
    this.#gate = new Gate(link, allowEviction, clock);
    const keys = new Keys(prefix);
    // One gate for both: a release must not wait for a look at the server that the vote before it had no need of.
    this.#store = new RedisStore(link, { clock }, ownsClient, { gate: this.#gate, keys });
    this.#votes = new Batch(this.#gate, clock, voteOperation(keys));
    this.#merges = new Batch(this.#gate, clock, mergeOperation(keys));
    this.#withdrawals = new Batch(this.#gate, clock, withdrawOperation(keys));
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

  watch(target: { readonly name: string }, wake: (mayFree: boolean) => void): Promise<AsyncDisposable> {
    return this.#store.watch(target, wake);
  }

  read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]> {
    return this.#store.read(name, signal);
  }

  list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    return this.#store.list(prefix, signal);
  }

  async close(): Promise<void> {
    this.#gate.close();
    await this.#store.close();
  }

  /** Before its first vote: whoever counts the votes has to know that they are of different servers. */
  async #identify(signal: AbortSignal): Promise<void> {
    try {
      const info = String(await sendAlone(this.#gate, 'info', ['server'], signal));
      this.#serverId = /^run_id:(\w+)/m.exec(info)?.[1] ?? null;
    } catch (error) {
      // Who may not ask is trusted to have given different servers.
      if (!/\bNOPERM\b/.test(String(error))) throw error;
    }
    this.#isIdentified = true;
  }
}
