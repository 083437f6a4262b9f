import { type Clock, systemClock } from '../../../clock.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  StoredClaim,
  Traits,
  WatchTarget,
} from '../../../store/store.ts';
import { Gate } from '../gate.ts';
import { Keys } from '../keys.ts';
import { RedisStore, type RedisStoreOptions } from '../redis-store.ts';
import type { Replicating } from '../replicated-store.ts';
import { ClusterLink } from './cluster-link.ts';
import { listCluster } from './listing.ts';
import type { ClusterNodes } from './nodes.ts';
import { slotOf, tagOf } from './slots.ts';

/** Stores of slots that are kept, some kilobytes each, unless more of them are in use at once. */
const SHARDS_MAX = 1_024;
/** More than one for each that is made, so that the number goes down again. */
const LOOKS = 4;

/**
 * Locks in a Redis Cluster: one Redis store for each slot that is used, all over the same connections. So each slot has its counter of fences, its batches and its
 * channel, and nothing needs to know of more than one.
 */
export class ClusterStore implements Replicating {
  readonly traits: Traits = { lifetime: 'lease', ordered: true, counting: true, remembers: true };
  readonly #link: ClusterLink;
  readonly #gate: Gate;
  readonly #options: RedisStoreOptions & { readonly clock: Clock };
  readonly #prefix: string;
  readonly #ownsClient: boolean;
  readonly #shards = new Map<number, RedisStore>();
  #closing: Promise<void> | null = null;

  constructor(nodes: ClusterNodes, options: RedisStoreOptions, ownsClient: boolean) {
    this.#options = { ...options, clock: options.clock ?? systemClock };
    this.#link = new ClusterLink(nodes, this.#options.clock);
    this.#gate = new Gate(this.#link, options.allowEviction ?? false, this.#options.clock);
    // Commands go to the nodes directly, past what the client would put before their keys.
    this.#prefix = nodes.keyPrefix + (options.prefix ?? 'holdfast:');
    this.#ownsClient = ownsClient;
  }

  claim(request: ClaimRequest, signal?: AbortSignal): Promise<ClaimOutcome> {
    return this.#shardOf(request.name).claim(request, signal);
  }

  renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    return this.#shardOf(claim.name).renew(claim, change, signal);
  }

  release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return this.#shardOf(claim.name).release(claim, signal);
  }

  evict(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return this.#shardOf(claim.name).evict(claim, signal);
  }

  watch(target: WatchTarget, wake: () => void): Promise<AsyncDisposable> {
    return this.#shardOf(target.name).watch(target, wake);
  }

  read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]> {
    return this.#shardOf(name).read(name, signal);
  }

  list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    return listCluster(this.#gate, this.#link, this.#prefix, prefix, signal);
  }

  replicasWith(name: string, count: number, limitMs: number, signal?: AbortSignal): Promise<number> {
    return this.#shardOf(name).replicasWith(name, count, limitMs, signal);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#gate.close();
    await Promise.all([...this.#shards.values()].map((shard) => shard.close()));
    this.#link.leave();
    if (this.#ownsClient) await this.#link.close();
  }

  #shardOf(name: string): RedisStore {
    const slot = slotOf(this.#prefix + name);
    let shard = this.#shards.get(slot);
    if (shard === undefined) {
      const keys = new Keys(this.#prefix, tagOf(slot));
      shard = new RedisStore(this.#link, this.#options, false, { gate: this.#gate, keys });
      if (this.#shards.size >= SHARDS_MAX) this.#retireSome();
      this.#shards.set(slot, shard);
    }
    return shard;
  }

  /** The oldest that are idle make room; the others are asked again after all others. */
  #retireSome(): void {
    let looks = 0;
    for (const [slot, shard] of this.#shards) {
      this.#shards.delete(slot);
      if (shard.isIdle) shard.retire();
      else this.#shards.set(slot, shard);
      looks += 1;
      if (looks === LOOKS) return;
    }
  }
}
