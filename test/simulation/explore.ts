import { createLocks, type Hold, type Lockable } from '../../src/index.ts';
import { capacityOf, weightOf } from '../../src/store/grant-rule.ts';
import type { Mode } from '../../src/store/store.ts';
import { SeededRun } from './seeded-run.ts';
import { takeSteps } from './violation.ts';

/** A hold in the simulation, from its grant until its user releases it. */
interface Held {
  readonly hold: Hold;
  readonly lock: string;
  readonly mode: Mode;
  wasLost: boolean;
}

interface Waiting {
  readonly controller: AbortController;
}

export interface Exploration {
  /** The steps taken, for counting different interleavings and for comparing runs. */
  readonly trace: string;
  readonly holds: number;
  readonly losses: number;
}

/** The last one outlives the whole run, so that an orphaned claim is found at the end. */
const TTLS = [200, 1_000, 5_000, 3_600_000];
export const STEPS = 45;

/**
 * One interleaving of acquire, abort, renew, extend, release, expiry, clock jumps and lost messages
 * over three processes and three locks, chosen by the seed. Throws at the first violation, and when
 * something is left at the end.
 */
export async function explore(seed: number, leftOut: ReadonlySet<string> = new Set()): Promise<Exploration> {
  const run = new Run(seed);
  await takeSteps(run, STEPS, leftOut);
  return { trace: run.trace.join('\n'), holds: run.holds, losses: run.losses };
}

class Run extends SeededRun {
  holds = 0;
  losses = 0;
  readonly #lockables: { lock: string; mode: Mode; lockable: Lockable }[] = [];
  readonly #held = new Set<Held>();
  readonly #waiting = new Set<Waiting>();
  readonly #fences = new Map<string, bigint>();
  readonly #background: Promise<unknown>[] = [];

  constructor(seed: number) {
    super(seed);
    for (const process of ['p1', 'p2', 'p3']) {
      const locks = createLocks(this.network.connect(process), { clock: this.clock, owner: process });
      const { read, write } = locks.readWriteLock('rw');
      const pool = locks.semaphore('pool', { permits: 3 });
      this.#lockables.push(
        { lock: 'mutex', mode: { kind: 'exclusive' }, lockable: locks.mutex('mutex') },
        { lock: 'rw', mode: { kind: 'shared' }, lockable: read },
        { lock: 'rw', mode: { kind: 'exclusive' }, lockable: write },
        { lock: 'pool', mode: { kind: 'permits', count: 2, of: 3 }, lockable: locked(pool, 2) },
        { lock: 'pool', mode: { kind: 'permits', count: 1, of: 3 }, lockable: locked(pool, 1) },
      );
    }
  }

  async step(step: string): Promise<void> {
    this.beginStep(step);
    const roll = this.random.roll();
    if (this.network.messages.length > 0 && roll < 0.6) this.#moveMessage();
    else if (roll < 0.78) this.#act();
    else await this.#passTime();
    await this.clock.settle();
    this.#check();
  }

  /**
   * Faults stop, every message is delivered, every user finishes: no caller may be stuck and
   * nothing may be left.
   */
  async quiesce(): Promise<void> {
    for (let round = 0; round < 400; round += 1) {
      for (const held of [...this.#held]) this.#release(held);
      while (this.network.messages.length > 0) {
        this.network.take(0).deliver();
        await this.clock.settle();
        this.#check();
      }
      if (this.#waiting.size === 0 && this.#held.size === 0 && round > 40) break;
      await this.clock.advance(250);
      this.#check();
    }
    if (this.#waiting.size > 0) throw new Error(`${this.#waiting.size} waiters are stuck on a free lock`);
    await Promise.all(this.#background);
    for await (const name of this.store.list('')) {
      throw new Error(`left in the store: ${name} ${JSON.stringify(await this.store.read(name), textual)}`);
    }
  }

  #moveMessage(): void {
    const message = this.network.take(this.random.below(this.network.messages.length));
    const lose = this.random.chance(0.12);
    this.trace.push(`${lose ? 'lose' : 'deliver'} ${message.process} ${message.kind} ${message.label}`);
    if (lose) message.lose();
    else message.deliver();
  }

  #act(): void {
    const what = this.random.roll();
    if (what < 0.55) this.#acquire();
    else if (what < 0.8 && this.#held.size > 0) this.#release(this.random.pick([...this.#held]));
    else if (what < 0.88 && this.#held.size > 0) this.#extend(this.random.pick([...this.#held]));
    else if (this.#waiting.size > 0) {
      this.trace.push('abort');
      this.random.pick([...this.#waiting]).controller.abort(new Error('aborted'));
    }
  }

  async #passTime(): Promise<void> {
    if (this.random.chance(0.06)) {
      const jump = this.random.pick([-3_600_000, 150, 3_600_000]);
      this.trace.push(`jump ${jump}`);
      this.clock.jumpWall(jump);
      return;
    }
    const ms = this.random.pick([1, 30, 150, 500, 1_200, 6_000]);
    const stall = this.random.chance(0.15);
    this.trace.push(`${stall ? 'stall' : 'pass'} ${ms}`);
    await (stall ? this.clock.stall(ms) : this.clock.advance(ms));
  }

  #acquire(): void {
    const { lock, mode, lockable } = this.random.pick(this.#lockables);
    const ttlMs = this.random.pick(TTLS);
    const waitMs = this.random.pick([0, 400, 20_000, 86_400_000]);
    const renew = this.random.chance(0.8);
    const waiting: Waiting = { controller: new AbortController() };
    this.trace.push(`acquire ${lock} ${mode.kind} ttl ${ttlMs} wait ${waitMs} renew ${renew}`);
    this.#waiting.add(waiting);
    const options = { ttlMs, renew, signal: waiting.controller.signal };
    const attempt = waitMs === 0 ? lockable.tryAcquire(options) : lockable.acquire({ ...options, waitMs });
    this.#background.push(
      attempt
        .then(
          (hold) => void (hold === null || this.#take(hold, lock, mode)),
          () => {},
        )
        .finally(() => this.#waiting.delete(waiting)),
    );
  }

  #take(hold: Hold, lock: string, mode: Mode): void {
    this.holds += 1;
    const held: Held = { hold, lock, mode, wasLost: false };
    const latest = this.#fences.get(lock) ?? 0n;
    // Readers that overlap may receive their grants in another order. An exclusive hold comes after
    // every earlier one.
    if (mode.kind === 'exclusive' && hold.fence <= latest)
      throw new Error(`fence ${hold.fence} of ${lock} is not above ${latest}`);
    if (hold.fence > latest) this.#fences.set(lock, hold.fence);
    this.#held.add(held);
    this.trace.push(`held ${lock} by ${hold.id}`);
    this.#check();
  }

  #release(held: Held): void {
    this.#held.delete(held);
    this.trace.push(`release ${held.lock}`);
    this.#background.push(held.hold.release().catch(() => {}));
  }

  #extend(held: Held): void {
    this.trace.push(`extend ${held.lock}`);
    const ttlMs = this.random.pick([...TTLS, undefined]);
    this.#background.push(held.hold.extend(ttlMs).catch(() => {}));
  }

  /** Holds that are trusted at the same instant must fit the capacity together. */
  #check(): void {
    const weights = new Map<string, number>();
    for (const held of this.#held) {
      const trusted = held.hold.remainingMs > 0;
      if (trusted && held.wasLost) throw new Error(`the hold on ${held.lock} came back after it was lost`);
      if (!trusted && !held.wasLost) {
        held.wasLost = true;
        this.losses += 1;
        if (!held.hold.signal.aborted)
          throw new Error(`the hold on ${held.lock} is over, and its signal is not aborted`);
      }
      if (!trusted) continue;
      const weight = (weights.get(held.lock) ?? 0) + weightOf(held.mode);
      weights.set(held.lock, weight);
      if (weight > capacityOf(held.mode)) throw new Error(`too many hold ${held.lock} at once`);
    }
  }
}

/** A semaphore that always takes this many permits, as a plain lockable. */
function locked(pool: ReturnType<ReturnType<typeof createLocks>['semaphore']>, permits: number): Lockable {
  return {
    acquire: (options) => pool.acquire({ ...options, permits }),
    tryAcquire: (options) => pool.tryAcquire({ ...options, permits }),
    run: (fn, options) => pool.run(fn, { ...options, permits }),
    tryRun: (fn, options) => pool.tryRun(fn, { ...options, permits }),
  };
}

const textual = (_key: string, value: unknown): unknown =>
  typeof value === 'bigint' ? value.toString() : value;
