import { createLocks, type Hold, type Lockable, memoryStore, type Store } from '../../src/index.ts';
import { capacityOf, weightOf } from '../../src/store/grant-rule.ts';
import type { Mode } from '../../src/store/store.ts';
import { type VirtualClock, virtualClock } from '../../src/testing/index.ts';
import { Dice } from './dice.ts';
import { Network } from './network.ts';

/** A hold as the simulation sees it: from when it was given until its user gives it up. */
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

/** The last outlives the whole run, so that a claim left behind is seen at the end. */
const TTLS = [200, 1_000, 5_000, 3_600_000];
const STEPS = 45;

/**
 * One interleaving of acquire, abort, renew, extend, release, expiry, clock jumps and lost messages over three processes and three locks, chosen by the seed. Throws at the first violation,
 * and when something is left behind at the end.
 */
export async function explore(seed: number): Promise<Exploration> {
  const run = new Run(seed);
  for (let step = 0; step < STEPS; step += 1) await run.step();
  await run.quiesce();
  return { trace: run.trace.join('\n'), holds: run.holds, losses: run.losses };
}

class Run {
  readonly trace: string[] = [];
  holds = 0;
  losses = 0;
  readonly #dice: Dice;
  readonly #clock: VirtualClock;
  readonly #store: Store;
  readonly #network: Network;
  readonly #lockables: { lock: string; mode: Mode; lockable: Lockable }[] = [];
  readonly #held = new Set<Held>();
  readonly #waiting = new Set<Waiting>();
  readonly #fences = new Map<string, bigint>();
  readonly #background: Promise<unknown>[] = [];

  constructor(seed: number) {
    this.#dice = new Dice(seed);
    this.#clock = virtualClock({ seed });
    this.#store = memoryStore({ clock: this.#clock });
    this.#network = new Network(this.#store);
    for (const process of ['p1', 'p2', 'p3']) {
      const locks = createLocks(this.#network.connect(process), { clock: this.#clock, owner: process });
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

  async step(): Promise<void> {
    const { messages } = this.#network;
    const roll = this.#dice.roll();
    if (messages.length > 0 && roll < 0.6) this.#moveMessage();
    else if (roll < 0.78) this.#act();
    else await this.#passTime();
    await this.#clock.settle();
    this.#check();
  }

  /** Faults stop, everything is delivered, every user finishes: nobody may be stuck and nothing may be left. */
  async quiesce(): Promise<void> {
    for (let round = 0; round < 400; round += 1) {
      for (const held of [...this.#held]) this.#release(held);
      while (this.#network.messages.length > 0) {
        this.#network.take(0).deliver();
        await this.#clock.settle();
        this.#check();
      }
      if (this.#waiting.size === 0 && this.#held.size === 0 && round > 40) break;
      await this.#clock.advance(250);
      this.#check();
    }
    if (this.#waiting.size > 0) throw new Error(`${this.#waiting.size} waiters are stuck on a free lock`);
    await Promise.all(this.#background);
    for await (const name of this.#store.list('')) {
      throw new Error(`left in the store: ${name} ${JSON.stringify(await this.#store.read(name), textual)}`);
    }
  }

  #moveMessage(): void {
    const message = this.#network.take(this.#dice.below(this.#network.messages.length));
    const lose = this.#dice.chance(0.12);
    this.trace.push(`${lose ? 'lose' : 'deliver'} ${message.label}`);
    if (lose) message.lose();
    else message.deliver();
  }

  #act(): void {
    const what = this.#dice.roll();
    if (what < 0.55) this.#acquire();
    else if (what < 0.8 && this.#held.size > 0) this.#release(this.#dice.pick([...this.#held]));
    else if (what < 0.88 && this.#held.size > 0) this.#extend(this.#dice.pick([...this.#held]));
    else if (this.#waiting.size > 0) {
      this.trace.push('abort');
      this.#dice.pick([...this.#waiting]).controller.abort(new Error('aborted'));
    }
  }

  async #passTime(): Promise<void> {
    if (this.#dice.chance(0.06)) {
      const jump = this.#dice.pick([-3_600_000, 150, 3_600_000]);
      this.trace.push(`jump ${jump}`);
      this.#clock.jumpWall(jump);
      return;
    }
    const ms = this.#dice.pick([1, 30, 150, 500, 1_200, 6_000]);
    const stall = this.#dice.chance(0.15);
    this.trace.push(`${stall ? 'stall' : 'pass'} ${ms}`);
    await (stall ? this.#clock.stall(ms) : this.#clock.advance(ms));
  }

  #acquire(): void {
    const { lock, mode, lockable } = this.#dice.pick(this.#lockables);
    const ttlMs = this.#dice.pick(TTLS);
    const waitMs = this.#dice.pick([0, 400, 20_000, 86_400_000]);
    const renew = this.#dice.chance(0.8);
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
    // Readers who overlap may hear of their grants in another order; whoever is alone comes after everybody before.
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
    const ttlMs = this.#dice.pick([...TTLS, undefined]);
    this.#background.push(held.hold.extend(ttlMs).catch(() => {}));
  }

  /** Those who may trust their holds at this instant must fit the lock together. */
  #check(): void {
    const weights = new Map<string, number>();
    for (const held of this.#held) {
      const trusted = held.hold.remainingMs > 0;
      if (trusted && held.wasLost) throw new Error(`the hold on ${held.lock} came back after it was lost`);
      if (!trusted && !held.wasLost) {
        held.wasLost = true;
        this.losses += 1;
        if (!held.hold.signal.aborted)
          throw new Error(`the hold on ${held.lock} is over, and its signal does not say so`);
      }
      if (!trusted) continue;
      const weight = (weights.get(held.lock) ?? 0) + weightOf(held.mode);
      weights.set(held.lock, weight);
      if (weight > capacityOf(held.mode)) throw new Error(`too many hold ${held.lock} at once`);
    }
  }
}

/** A semaphore that always takes so many permits, as a plain lockable. */
function locked(pool: ReturnType<ReturnType<typeof createLocks>['semaphore']>, permits: number): Lockable {
  return {
    acquire: (options) => pool.acquire({ ...options, permits }),
    tryAcquire: (options) => pool.tryAcquire({ ...options, permits }),
    run: (fn, options) => pool.run(fn, { ...options, permits }),
  };
}

const textual = (_key: string, value: unknown): unknown =>
  typeof value === 'bigint' ? value.toString() : value;
