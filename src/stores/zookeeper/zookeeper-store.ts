import { checkKeys, wrong } from '../../checks.ts';
import { type Clock, systemClock } from '../../clock.ts';
import { InvalidArgumentError, StoreError } from '../../errors.ts';
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
import { isUnknown } from '../../util/error-code.ts';
import { type EndTurn, Turns } from '../../util/turns.ts';
import { disposable } from '../shared/callback-index.ts';
import { claimKey } from '../shared/claim-map.ts';
import { queueMaxOf } from '../shared/queue-max.ts';
import { storeClosed } from '../shared/store-closed.ts';
import { Claim, ClaimTable } from './claim.ts';
import { Claims } from './claims.ts';
import type { Acl, ZookeeperClient } from './client.ts';
import { type ClientSource, Connection } from './connection.ts';
import { diagnose } from './diagnose.ts';
import { listNames, readClaims } from './inspect.ts';
import { LockWatch } from './lock-watch.ts';
import { LocksTree } from './locks-tree.ts';

const CLOSE_MS = 1_000;
const TRIES = 4;

/** The options of a ZooKeeper store. Programs that share locks must agree on the root. */
export interface ZookeeperStoreOptions {
  /**
   * The node above all lock nodes. The store creates it if it is missing. Default `/locks`, under
   * which the lock `name` is kazoo's `Lock('/locks/name')`.
   */
  readonly root?: string | undefined;
  /**
   * Access control of the nodes that the store creates: one of the client library's lists, such as
   * `ACL.CREATOR_ALL_ACL`. Default: every client may do everything.
   */
  readonly acl?: Acl | undefined;
  /**
   * Removes a lock node that this store has created once its last claim is released. kazoo fails
   * when a lock node that it has seen vanishes. Default false.
   */
  readonly removeEmpty?: boolean | undefined;
  /** How many claims may wait for one lock. Default 10,000. */
  readonly queueMax?: number | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

/**
 * Locks in a ZooKeeper ensemble, 3.5 or newer. Claims are ephemeral sequential nodes of one
 * session, and are compatible with kazoo's `Lock`, `ReadLock` and `WriteLock`. The fence is the
 * czxid. Claims live as long as the session, and holds are trusted for less than that.
 *
 * `client`: a client of `node-zookeeper-client` that is connected or connecting. It stays the
 * caller's, and closing the store leaves it open. A client cannot be used again once its session
 * has expired. The store then creates another client with the same settings, and closes that one
 * itself. Or a function that creates clients: the store connects and closes each of them.
 */
export function zookeeperStore(
  client: ZookeeperClient | (() => ZookeeperClient),
  options: ZookeeperStoreOptions = {},
): Store {
  if (typeof client !== 'function' && typeof client?.getSessionId !== 'function')
    throw wrong('client', 'one of node-zookeeper-client, or a function that makes one', typeof client);
  checkKeys(options, ['root', 'acl', 'removeEmpty', 'queueMax', 'clock']);
  const root = options.root ?? '/locks';
  if (root !== '/' && !/^(?:\/[^/]+)+$/.test(root))
    throw new InvalidArgumentError('root', 'must be the path of a node, such as /locks');
  return new ZookeeperStore(client, root, options);
}

class ZookeeperStore implements Store {
  readonly kind = 'zookeeper';
  readonly traits: Traits = { lifetime: 'session', ordered: true, counting: true, remembers: false };
  readonly #clock: Clock;
  readonly #tree: LocksTree;
  readonly #table = new ClaimTable();
  readonly #observers = new Set<LockWatch>();
  readonly #connection: Connection;
  readonly #claims: Claims;
  /** Claims and releases of one claim run one at a time. */
  readonly #turns = new Turns();
  #isClosed = false;

  constructor(source: ClientSource, root: string, options: ZookeeperStoreOptions) {
    this.#clock = options.clock ?? systemClock;
    this.#tree = new LocksTree(root, options.acl, options.removeEmpty === true);
    this.#claims = new Claims(this.#clock, this.#tree, this.#table, queueMaxOf(options));
    this.#connection = new Connection(source, this.#clock, () => this.#onSessionChange());
  }

  async claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    this.#assertOpen();
    const key = claimKey(request);
    const turn = this.#turns.begin(key);
    const endTurn = turn instanceof Promise ? await turn : turn;
    let endRequest: EndTurn | null = null;
    try {
      const ask = { request, signal, sent: instant(this.#clock) };
      // A connected session is used without another promise: each one shows in `bench/zookeeper`.
      const usable = signal?.aborted === true ? null : this.#connection.usable;
      const session = usable ?? (await this.#connection.ready(signal));
      const left = this.#table.get(request);
      // The claim is created again, and checked like a new one.
      if (left?.isLeaving === true) await this.#claims.release(left, signal);
      const claim = this.#table.get(request) ?? new Claim(request, this.#tree.lock(request.name), session);
      if (claim.session !== session) claim.restartIn(session);
      if (waiter !== undefined) claim.waiter = waiter;
      // The claim of a holder does not wait for its turn.
      const sending = claim.isGranted
        ? null
        : session.limiter.begin({ key, isQueued: claim.node !== null, signal });
      endRequest = sending instanceof Promise ? await sending : sending;
      for (let tries = 1; tries <= TRIES; tries += 1) {
        const found = this.#table.has(claim) ? await this.#claims.askAgain(claim, ask) : null;
        if (found !== null) return found;
        // Other stores may share the session, and keep alive what a closed store leaves behind.
        this.#assertOpen();
        const outcome = await this.#claims.enter(claim, ask);
        if (outcome !== null) return outcome;
      }
    } finally {
      endRequest?.();
      endTurn();
    }
    throw new StoreError('The claim, or its lock node, was removed as soon as it was made', {
      applied: 'unknown',
    });
  }

  async renew(ref: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    this.#assertOpen();
    const sent = instant(this.#clock);
    const claim = this.#table.get(ref);
    if (claim === undefined) return { held: false, how: 'taken' };
    const isHeld =
      (await this.#claims.isGrantedNow(claim)) && (await this.#isThere(claim, change.note, signal));
    // A node that is gone while its session lives on was removed by another client.
    if (!isHeld) return { held: false, how: claim.session.isOver ? 'session' : 'taken' };
    const validForMs = claim.session.leftMs(sent);
    if (validForMs <= 0)
      throw new StoreError('The session was not confirmed in time', { applied: 'unknown' });
    return { held: true, validForMs };
  }

  release(ref: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    if (this.#isClosed) return Promise.reject(storeClosed());
    const key = claimKey(ref);
    const known = this.#table.get(ref);
    // A claim that still waits for its turn is never sent, so there is nothing to remove.
    const isCancelled = this.#connection.usable?.limiter.cancel(key) === true;
    if (isCancelled && known === undefined) return Promise.resolve(false);
    return this.#turns.run(key, async () => {
      const claim = this.#table.get(ref);
      if (claim !== undefined) return await this.#claims.release(claim, signal);
      // It was removed while this call waited for its turn.
      if (known !== undefined) return known.isRemoved;
      return await this.#claims.evict(await this.#connection.ready(signal), ref);
    });
  }

  async evict(ref: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    this.#assertOpen();
    return await this.#claims.evict(await this.#connection.ready(signal), ref);
  }

  async watch({ name }: WatchTarget, onChange: () => void): Promise<AsyncDisposable> {
    this.#assertOpen();
    const watch = new LockWatch(this.#clock, this.#connection, this.#tree.lock(name), onChange);
    await watch.arm();
    this.#observers.add(watch);
    return disposable(() => {
      this.#observers.delete(watch);
      watch.end();
    });
  }

  async read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]> {
    this.#assertOpen();
    const session = await this.#connection.ready(signal);
    const ownClaim = (id: string): Claim | undefined => this.#table.get({ name, id });
    return await readClaims(session, this.#tree.lock(name), ownClaim, this.#clock);
  }

  async *list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    this.#assertOpen();
    yield* listNames(await this.#connection.ready(signal), this.#tree, prefix);
  }

  async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    this.#assertOpen();
    return await diagnose(await this.#connection.ready(context.signal), this.#tree.root, context);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    // A client that stays open keeps its session alive, and with it every node that is not removed.
    const lateness = new AbortController();
    const removed = Promise.allSettled(
      [...this.#table].map((claim) =>
        this.release(claim, lateness.signal).catch((error) => this.#onFailedRelease(claim, error)),
      ),
    );
    this.#isClosed = true;
    for (const observer of this.#observers) observer.end();
    await settlesWithin(this.#clock, removed, CLOSE_MS, { keepAlive: true });
    // What waits for a connection now is repeated when there is one.
    lateness.abort();
    await this.#disconnect();
    void removed.then(() => this.#disconnect());
  }

  /** A client of a user may connect again in the same session. What is left is removed then. */
  async #disconnect(): Promise<void> {
    if (this.#connection.isOurs || this.#table.size === 0) await this.#connection.close();
  }

  #assertOpen(): void {
    if (this.#isClosed) throw storeClosed();
  }

  /** After a reconnect or the end of a session, all watches are gone. So every claim asks or renews. */
  #onSessionChange(): void {
    this.#table.watch.unwatch();
    for (const claim of this.#table) {
      // Its release did not get through.
      if (claim.isLeaving) void this.#finishRelease(claim);
      claim.waiter?.wake();
    }
    for (const observer of this.#observers) void observer.rearm();
  }

  /** A claim that was sent again by the same id meanwhile stays. */
  async #finishRelease(claim: Claim): Promise<void> {
    const finish = async (): Promise<void> => {
      if (claim.isLeaving && this.#table.has(claim)) await this.#claims.release(claim, undefined);
    };
    await this.#turns.run(claimKey(claim), finish).catch((error) => this.#onFailedRelease(claim, error));
    if (this.#isClosed) await this.#disconnect();
  }

  /**
   * A closed store gives up a removal that the server refuses, such as one without permission. It
   * would be refused again, and the store would never leave its client.
   */
  #onFailedRelease(claim: Claim, error: unknown): void {
    const isRefused = !isUnknown(error) && claim.session.isUsable;
    if (this.#isClosed && isRefused) this.#table.remove(claim);
  }

  /** Whether the node exists, according to the leader and a majority. That also confirms the session. */
  async #isThere(claim: Claim, note: string | undefined, signal: AbortSignal | undefined): Promise<boolean> {
    const { session } = claim;
    try {
      await session.ready(signal);
      const isThere =
        note === undefined
          ? await session.transactions.check(claim.path)
          : await session.calls.setData(claim.path, Buffer.from(note));
      if (isThere) return true;
    } catch (error) {
      // The end of the session ends the claim. Any other failure says nothing about the claim.
      if (!session.isOver) throw error;
    }
    this.#table.remove(claim);
    return false;
  }
}
