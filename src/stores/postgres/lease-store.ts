import { type Clock, systemClock, type Timer } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Store,
  StoredClaim,
  Traits,
  WatchTarget,
} from '../../store/store.ts';
import { HandOvers } from '../hand-overs.ts';
import { LocalLines } from '../local-lines.ts';
import { Observers } from '../observers.ts';
import { Batch } from './batch.ts';
import { Lanes } from './lanes.ts';
import { Listener } from './listener.ts';
import { listNames, observe, prune, readClaims, vacuum } from './looking.ts';
import { claimAnswer, claimOperation, isThere, releaseOperation, renewOperation } from './operation.ts';
import { Pruner } from './pruner.ts';
import { Schema } from './schema.ts';
import type { Dial } from './wire.ts';

/** What of a lease store can be set. Programs that share locks must agree on the schema. */
export interface PostgresLeaseOptions {
  /** Where its tables and functions are: 1 to 40 of a-z, 0-9 and _. Default `holdfast`. */
  readonly schema?: string | undefined;
  /** Make them, or bring them up to date, when they are missing. Default true. False: for teams that run what `holdfast migrations` prints. */
  readonly migrate?: boolean | undefined;
  /** How many connections the statements go over at most, beside one that listens. Default 2. */
  readonly connections?: number | undefined;
  /** How many claims may wait for one lock. Default 10,000. */
  readonly lineMax?: number | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

const CONNECTIONS = 2;
/** How often a place is asked for again when nothing else happens: well within the two minutes that it lives. */
const KEEP_PLACE_MS = { min: 30_000, max: 45_000 };
/** While nothing can be heard: the first of this process, for all of it. */
const DEAF_MS = { min: 250, max: 500 };
/** Behind a pooler that lets notifications through, as far as can be told: it may be mistaken for one while others keep it busy. */
const POOLED_MS = { min: 500, max: 1_000 };
/** Right after a hold has ended, a little apart, so that the first waiters of many processes do not ask all at once. */
const AFTER_END_MS = { min: 2, max: 25 };
/** Far below where the server's numbers end: a fence at the very end could not be followed, and its floor would end the fences of every lock. */
const FENCE_MAX = 2n ** 62n;

export class PostgresLeaseStore implements Store {
  readonly traits: Traits = { lifetime: 'lease', ordered: true, counting: true, remembers: true };
  readonly #clock: Clock;
  readonly #schema: Schema;
  readonly #lineMax: number;
  readonly #lanes: Lanes;
  readonly #batch: Batch;
  readonly #lines: LocalLines;
  readonly #listener: Listener;
  readonly #observers: Observers;
  readonly #handOvers: HandOvers;
  readonly #pruner: Pruner;
  readonly #watches = new Set<object>();
  /** The greatest that it has given. */
  #fence = 0n;
  #pollTimer: Timer | null = null;
  #closing: Promise<void> | null = null;

  constructor(dial: Dial, options: PostgresLeaseOptions) {
    const clock = options.clock ?? systemClock;
    this.#clock = clock;
    this.#schema = new Schema(options.schema);
    this.#lineMax = options.lineMax ?? DEFAULTS.lineMax;
    this.#lanes = new Lanes(dial, {
      clock,
      schema: this.#schema,
      max: options.connections ?? CONNECTIONS,
      migrates: options.migrate ?? true,
    });
    this.#lines = new LocalLines(clock);
    this.#listener = new Listener(dial, clock, {
      onCalled: (name, id) => this.#lines.wake(name, id),
      onChanged: (name) => this.#observers.tell(name),
      onBreak: () => this.#onBreak(),
      isWanted: () => this.#watches.size > 0,
    });
    const channel = (): string | null => (this.#listener.isUp ? this.#listener.channel : null);
    this.#batch = new Batch(this.#lanes, this.#schema, clock, this.#lineMax, channel);
    this.#observers = new Observers(clock, (name, forMs) =>
      this.#listener.isDeaf
        ? Promise.resolve()
        : observe(this.#lanes, this.#schema, { name, channel: this.#listener.channel, forMs }),
    );
    // By an id that nobody can have: releasing what is not there calls whoever fits.
    this.#handOvers = new HandOvers(clock, (name) => this.release({ name, id: '' }));
    this.#pruner = new Pruner(
      clock,
      () => prune(this.#lanes, this.#schema),
      () => vacuum(this.#lanes, this.#schema),
    );
  }

  async claim(request: ClaimRequest, signal?: AbortSignal): Promise<ClaimOutcome> {
    if (request.fenceAbove > FENCE_MAX && request.fenceAbove > this.#fence)
      throw new StoreError(`PostgreSQL cannot count above fence ${request.fenceAbove}`, { applied: 'no' });
    const answer = await this.#batch.add(claimOperation(request), signal);
    const outcome = claimAnswer(request, answer, this.#lineMax);
    if (!outcome.granted) {
      return { granted: false, retryAfterMs: this.#retryAfterMs(request, outcome.endsInMs) };
    }
    if (outcome.fence > this.#fence) this.#fence = outcome.fence;
    if (outcome.isNew) this.#pruner.onMade();
    // There may be room for the next one too, and where nothing can be heard nobody else tells it.
    const isTold = this.#listener.isUp || request.mode.kind === 'exclusive';
    this.#lines.setDue(request.name, isTold ? request.ttlMs : 0);
    return { granted: true, fence: outcome.fence, validForMs: request.ttlMs };
  }

  async renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    const answer = await this.#batch.add(renewOperation(claim, change.ttlMs, change.note), signal);
    return isThere(answer) ? { held: true, validForMs: change.ttlMs } : { held: false };
  }

  async release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    const answer = await this.#batch.add(releaseOperation(claim), signal);
    if (answer === '2') {
      this.#handOvers.watch(claim.name);
      // The one who was called may be ours, and where nothing can be heard it would only find out when it looks.
      if (!this.#listener.isUp) this.#lines.wakeFirst(claim.name);
    }
    return isThere(answer);
  }

  async evict(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return await this.release(claim, signal);
  }

  async watch({ name, id }: WatchTarget, wake: () => void): Promise<AsyncDisposable> {
    this.#lanes.assertOpen();
    const unwatch = id === undefined ? this.#observers.add(name, wake) : this.#lines.add(name, id, wake);
    const watch: AsyncDisposable = {
      [Symbol.asyncDispose]: async () => {
        this.#watches.delete(watch);
        unwatch();
      },
    };
    this.#watches.add(watch);
    await this.#listener.start();
    if (id === undefined) await this.#observers.register(name);
    if (this.#listener.isDeaf && this.#pollTimer === null) this.#poll();
    return watch;
  }

  async read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]> {
    return await readClaims(this.#lanes, this.#schema, name, signal);
  }

  list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    return listNames(this.#lanes, this.#schema, prefix, signal);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#pollTimer?.cancel();
    this.#pruner.close();
    this.#handOvers.clear();
    this.#lines.clear();
    this.#observers.clear();
    await Promise.all([this.#listener.close(), this.#lanes.close()]);
  }

  /** Where nothing can be heard, those who watch are woken as often as they would have to look: the first of each line, and who observes. */
  #poll(): void {
    this.#pollTimer = this.#clock.startTimer(this.#between(DEAF_MS), () => {
      this.#pollTimer = null;
      if (this.#watches.size === 0 || this.#closing !== null) return;
      this.#poll();
      this.#lines.wakeFirsts();
      this.#observers.tellAll();
    });
  }

  /** Something may have been missed, and our places may say that we listen where we do not: everybody asks again. */
  #onBreak(): void {
    this.#lines.wakeAll();
    this.#observers.onBreak();
  }

  /** `endsInMs`: when the hold in front ends by itself. Only the first waiter of a process asks then; the others keep their places. */
  #retryAfterMs({ name, id }: ClaimRequest, endsInMs: number): number {
    const isDeaf = !this.#listener.isUp;
    let lookMs = endsInMs + this.#between(AFTER_END_MS);
    if (isDeaf) lookMs = Math.min(lookMs, this.#between(DEAF_MS));
    else if (!this.#listener.isDirect) lookMs = Math.min(lookMs, this.#between(POOLED_MS));
    this.#lines.setDue(name, lookMs);
    const keepMs = this.#between(KEEP_PLACE_MS);
    const retryMs = this.#lines.isFirst(name, id) ? Math.min(keepMs, lookMs) : keepMs;
    return Math.max(Math.ceil(retryMs), 1);
  }

  #between({ min, max }: { min: number; max: number }): number {
    return min + this.#clock.random() * (max - min);
  }
}
