import { type Clock, systemClock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { readScript } from '../../generated/redis-scripts.ts';
import { DEFAULTS } from '../../options.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  StoredClaim,
  Traits,
  WatchTarget,
} from '../../store/store.ts';
import { HandOvers } from '../hand-overs.ts';
import { LocalLines } from '../local-lines.ts';
import { Observers, type OnChange } from '../observers.ts';
import { Batch } from './batch.ts';
import { runAlone, sendAlone } from './call.ts';
import { Entering, type Refusal } from './entering.ts';
import { Gate } from './gate.ts';
import { Keys } from './keys.ts';
import type { Link } from './link.ts';
import { Listener } from './listener.ts';
import { listNames } from './listing.ts';
import { observe } from './observing.ts';
import {
  claimOperation,
  type ReleaseRequest,
  type RenewRequest,
  releaseOperation,
  renewOperation,
} from './operations.ts';
import { claimsIn } from './reading.ts';
import type { Replicating } from './replicated-store.ts';
import { ToldGrants } from './told-grants.ts';

/** What of a Redis store can be set. Programs that share locks must agree on the prefix. */
export interface RedisStoreOptions {
  /** Put before every lock's name. Default `holdfast:`. With `''`, a lock's key is its name, as other programs have it. */
  readonly prefix?: string | undefined;
  /** How many claims may wait for one lock. Default 10,000. */
  readonly lineMax?: number | undefined;
  /** Work with a server that evicts keys when its memory is full, and with it locks that are held. Default false. */
  readonly allowEviction?: boolean | undefined;
  /**
   * A grant or a renewal counts only when so many replicas have it; one that did not reach them in time is given back, and the claim rejects with a `StoreError`.
   * Default 0: replicas are not asked.
   */
  readonly waitReplicas?: number | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

/** How often a place is asked for again when nothing else happens: well within the two minutes that it lives. */
const KEEP_PLACE_MS = { min: 30_000, max: 45_000 };
/** Another program's release sends no wake-up: the first in line looks this often, the first of every other process less. */
const FOREIGN_HEAD_MS = { min: 500, max: 1_000 };
const FOREIGN_MS = { min: 3_000, max: 5_000 };
/** While nothing can be heard. */
const DEAF_MS = { min: 500, max: 1_000 };
/** Right after a hold has ended, a little apart, so that the first waiters of many processes do not ask all at once. */
const AFTER_END_MS = { min: 2, max: 25 };
/** No claim has it, and no other program's value can be mistaken for it: a release that only lets in whoever fits. */
const NOBODY = '';
/** The scripts count in doubles. */
const FENCE_MAX = 2n ** 53n - 2n;

export class RedisStore implements Replicating {
  readonly traits: Traits = { lifetime: 'lease', ordered: true, counting: true, remembers: true };
  readonly #link: Link;
  readonly #clock: Clock;
  readonly #gate: Gate;
  readonly #keys: Keys;
  readonly #keyPrefix: string;
  readonly #ownsClient: boolean;
  readonly #claims: Batch<ClaimRequest, ClaimOutcome>;
  readonly #renewals: Batch<RenewRequest, RenewOutcome>;
  readonly #releases: Batch<ReleaseRequest, boolean>;
  readonly #lines: LocalLines;
  readonly #told: ToldGrants;
  readonly #entering: Entering;
  readonly #listener: Listener;
  readonly #observers: Observers;
  readonly #handOvers: HandOvers;
  /** By the very object that the core names a claim with, so that nobody has to forget it. */
  readonly #hasWaited = new WeakSet<object>();
  /** What replicas are known to have is what was written on our own connection. */
  readonly #mustAsk: boolean;
  #closing: Promise<void> | null = null;

  /** `shared`: of the other stores over the same link, where each slot of a Cluster has one. */
  constructor(
    link: Link,
    options: RedisStoreOptions,
    ownsClient: boolean,
    shared?: { readonly gate: Gate; readonly keys: Keys },
  ) {
    this.#link = link;
    this.#clock = options.clock ?? systemClock;
    this.#ownsClient = ownsClient;
    this.#mustAsk = (options.waitReplicas ?? 0) > 0;
    this.#keys = shared?.keys ?? new Keys(options.prefix ?? 'holdfast:');
    this.#keyPrefix = link.keyPrefix;
    this.#gate = shared?.gate ?? new Gate(link, options.allowEviction ?? false, this.#clock);
    this.#lines = new LocalLines(this.#clock);
    this.#told = new ToldGrants(this.#clock);
    this.#entering = new Entering(this.#clock);
    this.#listener = new Listener(link, this.#keyPrefix + this.#keys.channelBase, this.#clock, {
      onGranted: (key, id, told) => {
        const name = this.#nameOf(key);
        const isEntering = this.#entering.onGranted(id);
        if (told !== null && (isEntering || this.#lines.has(name, id))) this.#told.add(id, told);
        this.#lines.wake(name, id);
      },
      onChanged: (key, mayFree) => this.#observers.tell(this.#nameOf(key), mayFree),
      onBreak: () => this.#onBreak(),
    });
    this.#observers = new Observers(this.#clock, (name, forMs) =>
      observe(this.#gate, this.#keys, this.#listener, name, forMs),
    );
    const claims = claimOperation(this.#keys, {
      lineMax: options.lineMax ?? DEFAULTS.lineMax,
      channel: () => (this.#listener.isUp ? this.#listener.channel : '-'),
      onGranted: ({ name, id, ttlMs }) => {
        this.#forget(id);
        this.#lines.setDue(name, ttlMs);
      },
      // A full line, for example: nothing stands there, so nobody will release it.
      onFailed: ({ id }) => this.#entering.drop(id),
      onServerTime: (serverMs, sentAt) => this.#told.setServerTime(serverMs, sentAt),
      retryAfterMs: (request, refusal) => {
        this.#entering.onRefused(request.id, refusal);
        return this.#retryAfterMs(request, refusal);
      },
    });
    this.#claims = new Batch(this.#gate, this.#clock, claims);
    this.#renewals = new Batch(this.#gate, this.#clock, renewOperation(this.#keys));
    this.#handOvers = new HandOvers(this.#clock, (name) => this.release({ name, id: NOBODY }));
    const releases = releaseOperation(this.#keys, (name) => this.#handOvers.watch(name));
    this.#releases = new Batch(this.#gate, this.#clock, releases);
  }

  claim(request: ClaimRequest, signal?: AbortSignal): Promise<ClaimOutcome> {
    const told = this.#mustAsk ? null : this.#told.take(request);
    if (told !== null) {
      this.#entering.drop(request.id);
      this.#lines.setDue(request.name, request.ttlMs);
      return Promise.resolve(told);
    }
    if (request.fenceAbove > FENCE_MAX) {
      return Promise.reject(
        new StoreError(`Redis cannot count above fence ${request.fenceAbove}`, { applied: 'no' }),
      );
    }
    const refusal = this.#stands(request);
    if (refusal === null) return this.#claims.add(request, signal);
    return Promise.resolve({ granted: false, retryAfterMs: this.#retryAfterMs(request, refusal) });
  }

  /** What is known of a claim without asking: that it was refused just now, before it was listened for. */
  #stands({ name, id, wait }: ClaimRequest): Refusal | null {
    if (!wait || !this.#listener.isUp) return null;
    const refusal = this.#lines.has(name, id) ? this.#entering.take(id) : null;
    if (refusal === null) this.#entering.begin(id);
    return refusal;
  }

  /** What was heard of a claim before anybody watched it. */
  #forget(id: string): void {
    this.#entering.drop(id);
    this.#told.drop(id);
  }

  renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    return this.#renewals.add({ name: claim.name, id: claim.id, change }, signal);
  }

  release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    this.#forget(claim.id);
    const hasWaited = this.#hasWaited.has(claim);
    return this.#releases.add({ name: claim.name, id: claim.id, evict: false, hasWaited }, signal);
  }

  evict(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return this.#releases.add({ name: claim.name, id: claim.id, evict: true, hasWaited: false }, signal);
  }

  async watch(target: WatchTarget, wake: OnChange): Promise<AsyncDisposable> {
    this.#gate.assertNotClosed();
    const { name, id } = target;
    this.#hasWaited.add(target);
    const unwatch =
      id === undefined ? this.#observers.add(name, wake) : this.#lines.add(name, id, () => wake(true));
    const stop = (): void => {
      unwatch();
      if (id !== undefined) this.#told.drop(id);
    };
    await this.#listener.start();
    if (id === undefined) await this.#observers.register(name);
    return {
      async [Symbol.asyncDispose]() {
        stop();
      },
    };
  }

  async read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]> {
    const { plain, line, info } = this.#keys.of(name);
    return claimsIn(await runAlone(this.#gate, readScript, [plain, line, info], [], signal));
  }

  list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    return listNames(this.#gate, this.#keys, prefix, signal);
  }

  async replicasWith(name: string, count: number, limitMs: number, signal?: AbortSignal): Promise<number> {
    return Number(
      await sendAlone(this.#gate, 'wait', [`${count}`, `${limitMs}`], signal, this.#keys.of(name).plain),
    );
  }

  /** Nobody waits here, nothing is on its way and nothing has to be looked after: another store could take its place. */
  get isIdle(): boolean {
    const batches = [this.#claims, this.#renewals, this.#releases];
    const waits = [this.#lines, this.#observers, this.#handOvers];
    return batches.every((batch) => batch.isIdle) && waits.every((each) => each.isEmpty);
  }

  /** Gives up what an idle store keeps: the channel that it listens to. */
  retire(): void {
    void this.#listener.close();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#gate.close();
    this.#lines.clear();
    this.#entering.clear();
    this.#handOvers.clear();
    this.#observers.clear();
    await this.#listener.close();
    this.#link.leave();
    if (this.#ownsClient) await this.#link.close();
  }

  /** The server gives keys with whatever the client itself has put before them. */
  #nameOf(key: string): string {
    return this.#keys.nameIn(key.slice(this.#keyPrefix.length)) ?? '';
  }

  /** Something may have been missed, and the server may take us for gone: everybody asks again, and so tells where to reach us now. */
  #onBreak(): void {
    this.#entering.clear();
    this.#told.forget();
    this.#lines.wakeAll();
    this.#observers.onBreak();
  }

  /** Marks: `h` first in line, `f` a foreign holder. */
  #retryAfterMs(request: ClaimRequest, { firstEndsMs, marks }: Refusal): number {
    let lookMs = firstEndsMs < 0 ? Number.POSITIVE_INFINITY : firstEndsMs + this.#between(AFTER_END_MS);
    if (marks.includes('f')) {
      lookMs = Math.min(lookMs, this.#between(marks.includes('h') ? FOREIGN_HEAD_MS : FOREIGN_MS));
    }
    this.#lines.setDue(request.name, lookMs);
    let retryMs = this.#between(this.#listener.isUp ? KEEP_PLACE_MS : DEAF_MS);
    if (this.#lines.isFirst(request.name, request.id)) retryMs = Math.min(retryMs, lookMs);
    return Math.max(Math.ceil(retryMs), 1);
  }

  #between({ min, max }: { min: number; max: number }): number {
    return min + this.#clock.random() * (max - min);
  }
}
