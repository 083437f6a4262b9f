import { checkKeys, wrong } from '../../checks.ts';
import { type Clock, systemClock } from '../../clock.ts';
import type { DiagnoseContext, Finding } from '../../store/finding.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Store,
  StoredClaim,
  Traits,
  Waiter,
  WatchTarget,
} from '../../store/store.ts';
import { settlesWithin } from '../../util/backoff.ts';
import { AheadWatch } from '../shared/ahead-watch.ts';
import { Callbacks } from '../shared/callback-index.ts';
import { queueMaxOf } from '../shared/queue-max.ts';
import { storeClosed } from '../shared/store-closed.ts';
import { Calls } from './calls.ts';
import { Claims } from './claims.ts';
import type { EtcdClient } from './client.ts';
import { diagnose } from './diagnose.ts';
import { listNames, readClaims } from './inspect.ts';
import { Keys } from './key.ts';
import { Queues } from './queues.ts';
import { queueWatches, WatchHub } from './watch-hub.ts';

const CLOSE_MS = 1_000;

/** The options of an etcd store. Programs that share locks must agree on the prefix. */
export interface EtcdStoreOptions {
  /**
   * The prefix of every key. With `''`, locks are shared with `etcdctl lock` and Go's
   * `concurrency.Mutex`. Default `holdfast/`.
   */
  readonly prefix?: string | undefined;
  /** How many claims may wait for one lock. Default 10,000. */
  readonly queueMax?: number | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

/**
 * Locks in an etcd cluster, 3.4 or newer. A claim is a key; the queue is ordered by create
 * revision, which is also the fence. Claims of one store share leases. The client stays the
 * caller's: closing the store leaves it open. A claim lives for the time that etcd grants: whole
 * seconds, at least two, counted from the send of the last confirmed extension.
 */
export function etcdStore(client: EtcdClient, options: EtcdStoreOptions = {}): Store {
  checkKeys(options, ['prefix', 'queueMax', 'clock']);
  return new EtcdStore(client, options);
}

export class EtcdStore implements Store {
  readonly kind = 'etcd';
  readonly traits: Traits = { lifetime: 'lease', ordered: true, counting: true, remembers: true };
  readonly #evictions = new Callbacks<[id: string | null]>();
  readonly onEvicted = this.#evictions.add;
  readonly #clock: Clock;
  readonly #keys: Keys;
  readonly #calls: Calls;
  readonly #queues: Queues;
  readonly #hub: WatchHub;
  readonly #claims: Claims;
  readonly #closeClient: () => void;
  #isClosed = false;

  /** `closeClient` is given with a client that was opened for this store. */
  constructor(client: EtcdClient, options: EtcdStoreOptions, closeClient: () => void = () => {}) {
    if (typeof client?.kv?.txn !== 'function') throw wrong('client', 'one of etcd3', typeof client);
    const clock = options.clock ?? systemClock;
    this.#clock = clock;
    this.#keys = new Keys(options.prefix ?? 'holdfast/');
    this.#calls = new Calls(client, clock);
    this.#queues = new Queues(this.#calls, queueMaxOf(options));
    this.#hub = new WatchHub(this.#calls, clock);
    const watch = new AheadWatch(queueWatches(this.#hub, ({ id }) => this.#evictions.call(id)));
    this.#claims = new Claims(this.#calls, this.#queues, this.#keys, watch, clock);
    this.#closeClient = closeClient;
  }

  async claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    this.#assertOpen();
    return await this.#claims.claim(request, signal, waiter);
  }

  async renew(claim: ClaimRef, change: RenewChange): Promise<RenewOutcome> {
    this.#assertOpen();
    return await this.#claims.renew(claim, change);
  }

  async release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    this.#assertOpen();
    return await this.#claims.release(claim, signal);
  }

  async evict(claim: ClaimRef): Promise<boolean> {
    this.#assertOpen();
    return await this.#claims.evict(claim);
  }

  async watch(target: WatchTarget, onChange: () => void): Promise<AsyncDisposable> {
    this.#assertOpen();
    const { from: key, end: range_end } = this.#keys.lock(target.name);
    const watching = this.#hub.add({ key, range_end, from: 0n, filters: [] }, onChange);
    await watching.armed;
    return { [Symbol.asyncDispose]: async () => watching.cancel() };
  }

  async read(name: string): Promise<readonly StoredClaim[]> {
    this.#assertOpen();
    const heldForMs = (id: string): number | null => this.#claims.heldForMs({ name, id });
    return await readClaims(this.#queues, this.#calls, this.#keys.lock(name), heldForMs);
  }

  async *list(prefix: string): AsyncIterable<string> {
    this.#assertOpen();
    yield* listNames(this.#calls, this.#keys, prefix);
  }

  async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    this.#assertOpen();
    return await diagnose(this.#calls, this.#keys, context);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#evictions.clear();
    this.#hub.close();
    await settlesWithin(this.#clock, this.#claims.close(), CLOSE_MS, { keepAlive: true });
    this.#closeClient();
  }

  #assertOpen(): void {
    if (this.#isClosed) throw storeClosed();
  }
}
