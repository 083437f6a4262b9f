import { checkKeys, wrong } from '../../checks.ts';
import { type Clock, systemClock, type Timer } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
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
import { instant } from '../../store/validity.ts';
import { settlesWithin } from '../../util/backoff.ts';
import { EvictionListeners } from '../shared/eviction-listeners.ts';
import { queueMaxOf } from '../shared/queue-max.ts';
import { storeClosed } from '../shared/store-closed.ts';
import { Calls } from './calls.ts';
import { Claim } from './claim.ts';
import { ClaimTable } from './claim-table.ts';
import { type Ask, Claims, REFUSED } from './claims.ts';
import type { EtcdClient } from './client.ts';
import { diagnose } from './diagnose.ts';
import { Enqueue } from './enqueue.ts';
import { EntryTurns } from './entry-turns.ts';
import { listNames, readClaims } from './inspect.ts';
import { KeepAlives } from './keep-alives.ts';
import { Keys } from './key.ts';
import { unknownLease } from './lease.ts';
import { LeaseExtension } from './lease-extension.ts';
import { LeasePool, leaseTime } from './lease-pool.ts';
import { QueueReader } from './queue-reader.ts';
import { Transactions } from './transactions.ts';
import { WatchHub } from './watch-hub.ts';

const CLOSE_MS = 1_000;
const SWEEP_MS = 1_000;
/** How often a claim is made, because its lease had ended or its key was deleted at once. */
const TRIES = 3;
/** How long the announcement of a changed note stays in etcd. */
const NOTE_MS = 1_000;

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
  readonly #evictions = new EvictionListeners();
  readonly onEvicted = this.#evictions.add;
  readonly #clock: Clock;
  readonly #keys: Keys;
  readonly #calls: Calls;
  readonly #transactions: Transactions;
  readonly #reader: QueueReader;
  readonly #leases: LeasePool;
  readonly #extension: LeaseExtension;
  readonly #hub: WatchHub;
  readonly #table: ClaimTable;
  readonly #claims: Claims;
  readonly #entries = new EntryTurns();
  #sweepTimer: Timer | null = null;
  readonly #closeClient: () => void;
  #isClosed = false;

  /** `closeClient` is given with a client that was opened for this store. */
  constructor(client: EtcdClient, options: EtcdStoreOptions, closeClient: () => void = () => {}) {
    if (typeof client?.kv?.txn !== 'function') throw wrong('client', 'one of etcd3', typeof client);
    const clock = options.clock ?? systemClock;
    this.#clock = clock;
    this.#keys = new Keys(options.prefix ?? 'holdfast/');
    this.#calls = new Calls(client, clock);
    this.#transactions = new Transactions(this.#calls, clock);
    this.#reader = new QueueReader(this.#transactions);
    this.#leases = new LeasePool(this.#calls, new KeepAlives(this.#calls, clock), clock);
    this.#extension = new LeaseExtension(this.#leases, this.#transactions);
    this.#hub = new WatchHub(this.#calls, clock);
    this.#table = new ClaimTable(this.#hub, ({ id }) => this.#evictions.tell(id));
    this.#claims = new Claims({
      clock,
      keys: this.#keys,
      table: this.#table,
      leases: this.#leases,
      extension: this.#extension,
      enqueue: new Enqueue(this.#transactions, this.#reader, queueMaxOf(options), clock),
      reader: this.#reader,
    });
    this.#closeClient = closeClient;
  }

  async claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    this.#assertOpen();
    this.#sweepLater();
    const ask: Ask = { request, signal, waiter: waiter ?? null, sent: instant(this.#clock) };
    const known = await this.#claims.askAgain(ask);
    if (known !== null) return known;
    const turn = await this.#entries.begin(request, signal);
    let outcome: ClaimOutcome | null = null;
    try {
      // An earlier request by the same id may have entered the queue meanwhile.
      outcome = await this.#claims.askAgain(ask);
      if (outcome === null && turn.isAnswered) outcome = REFUSED;
      for (let tries = 1; outcome === null && tries <= TRIES; tries += 1)
        outcome = await this.#claims.enter(ask, tries === TRIES);
    } finally {
      turn.end(outcome);
    }
    if (outcome !== null) return outcome;
    throw new StoreError('The claim was removed as soon as it was made', { applied: 'unknown' });
  }

  async renew(ref: ClaimRef, change: RenewChange): Promise<RenewOutcome> {
    this.#assertOpen();
    const sent = instant(this.#clock);
    const claim = this.#table.get(ref) ?? (await this.#adopt(ref));
    if (claim === null || !(await this.#isGranted(claim))) return { held: false };
    if (!(await this.#extension.extend(claim, change))) {
      this.#table.remove(claim);
      return { held: false };
    }
    const validForMs = claim.trust(sent);
    if (change.note !== undefined) {
      this.#leaveBehind(claim);
      await this.#announceNote(claim);
    }
    return { held: true, validForMs };
  }

  async release(ref: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    this.#assertOpen();
    const claim = this.#table.get(ref);
    // The deletion that follows is no eviction.
    claim?.endKeyWatch();
    try {
      if (signal?.aborted === true) throw new StoreError('The release was not sent', { applied: 'no' });
      if (claim === undefined) return await this.#removeFound(ref);
      const isRemoved = await this.#remove(claim.key, claim.revision);
      // A pending request may still create the key. Then the claim stays in the table, so that it
      // can be released again.
      if (isRemoved || !claim.isEntering) this.#table.remove(claim);
      return isRemoved;
    } catch (error) {
      // The claim must not be extended any more. If the caller tries again, the key is found by the
      // claim's id.
      claim?.lease.end();
      if (claim?.isEntering === false) this.#table.remove(claim);
      throw error;
    }
  }

  async evict(ref: ClaimRef): Promise<boolean> {
    this.#assertOpen();
    return await this.#removeFound(ref);
  }

  async watch(target: WatchTarget, onChange: () => void): Promise<AsyncDisposable> {
    this.#assertOpen();
    const { from: key, end: range_end } = this.#keys.lock(target.name);
    const watching = this.#hub.add({ key, range_end, from: 0n, puts: true }, onChange);
    await watching.armed;
    return { [Symbol.asyncDispose]: async () => watching.cancel() };
  }

  async read(name: string): Promise<readonly StoredClaim[]> {
    this.#assertOpen();
    const heldForMs = (id: string): number | null => {
      const grantedAtMs = this.#table.get({ name, id })?.grantedAtMs ?? null;
      return grantedAtMs === null ? null : this.#clock.monotonicMs() - grantedAtMs;
    };
    return await readClaims(this.#reader, this.#calls, this.#keys.lock(name), heldForMs);
  }

  async *list(prefix: string): AsyncIterable<string> {
    this.#assertOpen();
    yield* listNames(this.#transactions, this.#keys, prefix);
  }

  async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    this.#assertOpen();
    return await diagnose(this.#calls, this.#keys, context);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#sweepTimer?.cancel();
    this.#evictions.clear();
    this.#hub.close();
    await settlesWithin(this.#clock, this.#leases.close(), CLOSE_MS, { keepAlive: true });
    this.#closeClient();
  }

  #assertOpen(): void {
    if (this.#isClosed) throw storeClosed();
  }

  /** Sweeps every second while there are claims or leases. The timer does not keep the process alive. */
  #sweepLater(): void {
    if (this.#isClosed) return;
    this.#sweepTimer ??= this.#clock.startTimer(SWEEP_MS, () => {
      this.#sweepTimer = null;
      const hasClaims = this.#claims.sweep();
      if (this.#leases.sweep() || hasClaims) this.#sweepLater();
    });
  }

  async #isGranted(claim: Claim): Promise<boolean> {
    if (claim.isGranted) return true;
    if (claim.revision === null) return false;
    const look = await this.#reader.look(claim, claim.revision);
    return look.isThere && look.verdict.granted;
  }

  /** Finds a claim that another store has made, or that this store has forgotten. */
  async #adopt(ref: ClaimRef): Promise<Claim | null> {
    const lock = this.#keys.lock(ref.name);
    const found = await this.#reader.find(lock, ref);
    if (found === null || !found.ours) return null;
    const claim = new Claim(ref, found.mode, lock, found.key, unknownLease(this.#clock));
    claim.revision = found.revision;
    if (!(await this.#isGranted(claim))) return null;
    claim.isGranted = true;
    this.#table.add(claim);
    this.#sweepLater();
    return claim;
  }

  async #removeFound(ref: ClaimRef): Promise<boolean> {
    const found = await this.#reader.find(this.#keys.lock(ref.name), ref);
    return found !== null && (await this.#remove(found.key, found.revision));
  }

  async #remove(key: Buffer, revision: bigint | null): Promise<boolean> {
    const { succeeded, attempts } = await this.#reader.remove(key, revision);
    // The client has sent the deletion more than once, and an earlier attempt may have deleted the
    // key.
    if (!succeeded && attempts !== 1)
      throw new StoreError('The answer to a release was lost', { applied: 'unknown' });
    return succeeded;
  }

  /** Wakes the waiters of the lock. They also poll, so a failure does not matter. */
  async #announceNote({ lock: { note: key } }: Claim): Promise<void> {
    try {
      const { lease } = await this.#leases.forClaim(leaseTime(NOTE_MS));
      const put = { request_put: { key, lease: lease.id, value: Buffer.alloc(0) } };
      const txn = { compare: [], success: [put], failure: [] };
      await this.#transactions.writes.add({ txn, conflicts: [key.toString('latin1')] });
    } catch {
      // The waiters find the note when they ask again.
    }
  }

  /**
   * A claim with a last note may stay for a year. This store forgets such a claim. Should it be
   * renewed again, `#adopt` finds it.
   */
  #leaveBehind(claim: Claim): void {
    const { lease } = claim;
    if (lease.state === 'kept') return;
    if (lease.state === 'open') lease.state = 'fixed';
    this.#table.remove(claim);
  }
}
