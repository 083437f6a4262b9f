import { type Clock, systemClock } from '../../../clock.ts';
import type { HoldfastError } from '../../../errors.ts';
import type { DiagnoseContext, Finding } from '../../../store/finding.ts';
import { CONNECT_NAME } from '../../../store/first-answer.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  StoredClaim,
  Traits,
  Waiter,
  WatchTarget,
} from '../../../store/store.ts';
import { Callbacks } from '../../shared/callback-index.ts';
import { failureOf } from '../failure.ts';
import { Keys } from '../keys.ts';
import { ReadinessCheck } from '../readiness-check.ts';
import { RedisStore, type RedisStoreOptions } from '../redis-store.ts';
import type { Replicating } from '../replicated-store.ts';
import { ClusterConnection } from './cluster-connection.ts';
import { listCluster } from './inspect.ts';
import type { ClusterNodes } from './nodes.ts';
import { renewInOpenSlot } from './open-slot.ts';
import { slotOf, tagOf } from './slots.ts';

/** Idle slot stores beyond this number are dropped. Each takes a few kilobytes. */
const STORES_MAX = 1_024;
/** How many stores are checked when one is added: more than one, so that the map can shrink. */
const RETIRE_CHECKS = 4;

/**
 * Locks in a Redis Cluster. Each slot in use has a Redis store of its own over the same
 * connections, with its own counter of fences, batches and channel, as sharded channels require.
 */
export class ClusterStore implements Replicating {
  readonly kind = 'redis-cluster';
  readonly traits: Traits = { lifetime: 'lease', ordered: true, counting: true, remembers: true };
  readonly #connection: ClusterConnection;
  readonly #readiness: ReadinessCheck;
  readonly #options: RedisStoreOptions & { readonly clock: Clock };
  readonly #prefix: string;
  readonly #ownsClient: boolean;
  readonly #stores = new Map<number, RedisStore>();
  readonly #evictions = new Callbacks<[id: string | null]>();
  readonly onEvicted = this.#evictions.add;
  #closing: Promise<void> | null = null;

  constructor(nodes: ClusterNodes, options: RedisStoreOptions, ownsClient: boolean) {
    const clock = options.clock ?? systemClock;
    this.#options = { ...options, clock };
    this.#connection = new ClusterConnection(nodes, clock);
    this.#readiness = new ReadinessCheck(this.#connection, options.allowEviction ?? false, clock);
    // Commands go to the nodes directly, so the client does not add its own prefix.
    this.#prefix = nodes.keyPrefix + (options.prefix ?? 'holdfast:');
    this.#ownsClient = ownsClient;
  }

  /** Succeeds when one master answers. A lock on another one fails on its own first command. */
  connect(signal: AbortSignal): Promise<void> {
    return this.#readiness.untilReady(signal);
  }

  claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    return this.#storeOf(request.name).claim(request, signal, waiter);
  }

  renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    return this.#storeOf(claim.name)
      .renew(claim, change, signal)
      .catch((failure: unknown) => {
        const keys = this.#keysOf(this.#slotOf(claim.name));
        return renewInOpenSlot(this.#readiness, keys, claim, change, failure, signal);
      });
  }

  release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return this.#storeOf(claim.name).release(claim, signal);
  }

  evict(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return this.#storeOf(claim.name).evict(claim, signal);
  }

  watch(target: WatchTarget, onChange: () => void): Promise<AsyncDisposable> {
    return this.#storeOf(target.name).watch(target, onChange);
  }

  read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]> {
    return this.#storeOf(name).read(name, signal);
  }

  list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    return listCluster(this.#readiness, this.#connection, this.#prefix, prefix, signal);
  }

  replicasWith(name: string, count: number, limitMs: number, signal?: AbortSignal): Promise<number> {
    return this.#storeOf(name).replicasWith(name, count, limitMs, signal);
  }

  async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    const { diagnoseCluster } = await import('./diagnose.ts');
    const { subscription } = this.#storeOf(CONNECT_NAME).server;
    const keysOf = (slot: number): Keys => this.#keysOf(slot);
    return await diagnoseCluster(context, this.#readiness, this.#connection, keysOf, subscription);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#readiness.close();
    await Promise.all([...this.#stores.values()].map((store) => store.close()));
    this.#connection.leave();
    if (this.#ownsClient) await this.#connection.close();
  }

  #slotOf(name: string): number {
    return slotOf(this.#prefix + name);
  }

  #keysOf(slot: number): Keys {
    return new Keys(this.#prefix, tagOf(slot));
  }

  #storeOf(name: string): RedisStore {
    const slot = this.#slotOf(name);
    const known = this.#stores.get(slot);
    if (known !== undefined) return known;
    const readiness = new SlotReadiness(this.#readiness, this.#connection, slot, this.#options.clock);
    const shared = { readiness, keys: this.#keysOf(slot) };
    const store = new RedisStore(this.#connection, this.#options, false, shared);
    if (this.#stores.size >= STORES_MAX) this.#retireSome();
    this.#stores.set(slot, store);
    store.onEvicted?.((id) => this.#evictions.call(id));
    return store;
  }

  /** Drops idle stores among the oldest ones. A store in use moves to the end of the map. */
  #retireSome(): void {
    let checks = 0;
    for (const [slot, store] of this.#stores) {
      this.#stores.delete(slot);
      if (store.isIdle) void store.server.subscription.close();
      else this.#stores.set(slot, store);
      checks += 1;
      if (checks === RETIRE_CHECKS) return;
    }
  }
}

/**
 * Whether the Cluster can be used and the node of one slot is connected. Until then, commands stay
 * in the batches of their slot, so that no abandoned claim is sent when the node is back.
 */
class SlotReadiness extends ReadinessCheck {
  readonly #cluster: ReadinessCheck;
  readonly #connection: ClusterConnection;
  readonly #slot: number;

  /** `cluster`: the check of the servers, which all slots share. */
  constructor(cluster: ReadinessCheck, connection: ClusterConnection, slot: number, clock: Clock) {
    super(connection, true, clock);
    this.#cluster = cluster;
    this.#connection = connection;
    this.#slot = slot;
  }

  override get isOpen(): boolean {
    return this.#cluster.isOpen && this.#connection.isSlotReady(this.#slot);
  }

  override whenReady(callback: (refusal: HoldfastError | null) => void): void {
    this.#cluster.whenReady((refusal) => {
      if (refusal !== null) callback(refusal);
      else
        this.#connection.whenSlotReady(this.#slot).then(
          () => callback(null),
          (error: unknown) => callback(failureOf(error)),
        );
    });
  }

  override assertNotClosed(): void {
    this.#cluster.assertNotClosed();
  }
}
