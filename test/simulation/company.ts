import {
  type Candidate,
  createLocks,
  type Hold,
  type Locks,
  memoryStore,
  type Store,
} from '../../src/index.ts';
import { type VirtualClock, virtualClock } from '../../src/testing/index.ts';
import { Dice } from './dice.ts';
import { Network } from './network.ts';

/** What can be asked of a hold on one lock or on several. */
type AnyHold = Pick<Hold, 'remainingMs' | 'signal' | 'release'>;

interface Held {
  readonly hold: AnyHold;
  readonly names: readonly string[];
  /** Given back by a call, and not at the end of a function. */
  readonly isByHand: boolean;
  wasLost: boolean;
}

const NAMES = ['a', 'b', 'c'];
const STEPS = 60;
/** Rounds of a quarter of a second in which everything must come to its end once nothing is lost any more. */
const ROUNDS = 400;
const FOREVER_MS = 3_600_000;

/** What happened in a run, so that a test can tell that much did. */
export type Tally = Record<'held' | 'lost' | 'elected' | 'led' | 'ran' | 'closed', number>;

/**
 * One interleaving, chosen by the seed, of what stands above single locks: several locks at once, candidates, leaders, once-only runs, rate limits and closing, over three processes whose messages are late or lost. Throws at the
 * first violation, when something is stuck, and when something is left behind at the end.
 */
export async function exploreCompany(seed: number): Promise<Tally> {
  const company = new Company(seed);
  for (let step = 0; step < STEPS; step += 1) await company.step();
  await company.quiesce();
  return company.tally;
}

class Company {
  readonly tally: Tally = { held: 0, lost: 0, elected: 0, led: 0, ran: 0, closed: 0 };
  readonly #dice: Dice;
  readonly #clock: VirtualClock;
  readonly #store: Store;
  readonly #network: Network;
  readonly #processes: Locks[];
  readonly #closed = new Set<Locks>();
  readonly #held = new Set<Held>();
  readonly #fences = new Map<string, bigint>();
  readonly #candidates: Candidate[] = [];
  readonly #aborts = new Set<AbortController>();
  /** What is under way, by what it is. */
  readonly #pending = new Map<Promise<unknown>, string>();
  #problem: unknown = null;
  /** When a run was remembered, as far as the store has confirmed it. */
  #rememberedAtMs: number | null = null;
  #isMemoryUnsure = false;

  constructor(seed: number) {
    this.#dice = new Dice(seed);
    this.#clock = virtualClock({ seed });
    this.#store = memoryStore({ clock: this.#clock });
    this.#network = new Network(this.#store);
    this.#processes = ['p1', 'p2', 'p3'].map((owner) => {
      const ttlMs = this.#dice.pick([500, 2_000, 5_000]);
      const locks = createLocks(this.#network.connect(owner), { clock: this.#clock, owner, ttlMs });
      // Nobody knows what the store has made of it; and a renewal without an answer may arrive last and cut short what is remembered.
      for (const event of ['releaseFailed', 'renewFailed'] as const) {
        locks.on(event, ({ name }) => {
          if (name.startsWith('once')) this.#isMemoryUnsure = true;
        });
      }
      return locks;
    });
  }

  async step(): Promise<void> {
    const roll = this.#dice.roll();
    const { messages } = this.#network;
    if (messages.length > 0 && roll < 0.6) {
      const message = this.#network.take(this.#dice.below(messages.length));
      if (this.#dice.chance(0.1)) message.lose();
      else message.deliver();
    } else if (roll < 0.8) this.#act();
    else await this.#passTime();
    await this.#clock.settle();
    this.#check();
  }

  /** Faults stop, everything is delivered, every user finishes and every process closes: nobody may be stuck and nothing may be left. */
  async quiesce(): Promise<void> {
    for (const candidate of this.#candidates.splice(0)) this.#follow('stop', candidate.stop());
    for (let round = 0; round < ROUNDS && (this.#pending.size > 0 || round < 50); round += 1) {
      for (const held of this.#byHand) this.#giveBack(held);
      if (round === 40) for (const each of [...this.#aborts]) each.abort(new Error('the end'));
      if (round === 45)
        for (const locks of this.#processes) this.#follow('close', locks.close({ drainMs: 1_000 }));
      while (this.#network.messages.length > 0) {
        this.#network.take(0).deliver();
        await this.#clock.settle();
        this.#check();
      }
      await this.#clock.advance(250);
      this.#check();
    }
    if (this.#pending.size > 0) throw new Error(`stuck: ${[...this.#pending.values()].join(', ')}`);
    for await (const name of this.#store.list('')) {
      // A finished run and a permit of a rate limit are left on purpose.
      if (!/^(?:once|rate)\W/.test(name)) throw new Error(`left in the store: ${name}`);
    }
  }

  #act(): void {
    const locks = this.#dice.pick(this.#processes);
    const roll = this.#dice.roll();
    if (roll < 0.35) this.#takeAll(locks);
    else if (roll < 0.5 && this.#byHand.length > 0) this.#giveBack(this.#dice.pick(this.#byHand));
    else if (roll < 0.58) this.#once(locks);
    else if (roll < 0.68) this.#stand(locks);
    else if (roll < 0.75) this.#lead(locks);
    else if (roll < 0.8) this.#limit(locks);
    else if (roll < 0.85) this.#withLock(locks);
    else if (roll < 0.9 && this.#candidates.length > 0) {
      const [candidate] = this.#candidates.splice(this.#dice.below(this.#candidates.length), 1);
      if (candidate !== undefined) this.#follow('stop', candidate.stop());
    } else if (roll < 0.92 && this.#closed.size < 2) this.#close(locks);
    else if (this.#aborts.size > 0) this.#dice.pick([...this.#aborts]).abort(new Error('aborted'));
  }

  #takeAll(locks: Locks): void {
    const lock = locks.all([this.#dice.pick(NAMES), this.#dice.pick(NAMES)], {
      maxHoldMs: this.#dice.pick([Number.POSITIVE_INFINITY, 300, 3_000]),
      signal: this.#signal(),
    });
    const waitMs = this.#dice.pick([0, 400, 20_000]);
    const taking = this.#dice.chance(0.3) ? lock.tryAcquire() : lock.acquire({ waitMs });
    this.#follow(
      'all',
      taking.then((hold) => {
        if (hold !== null) this.#take(hold, hold.names, true, (name) => hold.fenceOf(name));
      }),
    );
  }

  #withLock(locks: Locks): void {
    const name = this.#dice.pick(NAMES);
    const work = locks.withLock(name, (hold) => this.#workUnder(hold, name), {
      waitMs: 400,
      signal: this.#signal(),
    });
    this.#follow('withLock', work);
  }

  #once(locks: Locks): void {
    const run = async (hold: Hold): Promise<void> => {
      this.tally.ran += 1;
      if (this.#rememberedAtMs !== null && !this.#isMemoryUnsure)
        this.#fail(`ran again ${this.#clock.monotonicMs() - this.#rememberedAtMs} ms after it was done`);
      await this.#workUnder(hold, 'once');
    };
    const running = locks.once('job', run, { rememberMs: FOREVER_MS, signal: this.#signal() });
    this.#follow(
      'once',
      running.then(({ ran }) => {
        if (ran) this.#rememberedAtMs = this.#clock.monotonicMs();
      }),
    );
  }

  #stand(locks: Locks): void {
    if (this.#closed.has(locks)) return;
    let terms = 0;
    const onElected = async (term: Hold): Promise<void> => {
      this.tally.elected += 1;
      terms += 1;
      if (terms > 1) this.#fail('two terms of one candidate overlap');
      this.#rise('office', term.fence);
      // Some take their time to end.
      await this.#pause(1_000, this.#dice.chance(0.5) ? term.signal : undefined);
      terms -= 1;
      if (this.#dice.chance(0.1)) throw new Error('tired of it');
    };
    // With nobody to hear that it threw, each time would be a warning of the process.
    this.#candidates.push(locks.election('office').start({ onElected, onLost: () => {} }));
  }

  #lead(locks: Locks): void {
    const leading = locks.election('chair').lead(
      async (term) => {
        this.tally.led += 1;
        await this.#workUnder(term, 'chair');
      },
      { signal: this.#signal() },
    );
    this.#follow('lead', leading);
  }

  #limit(locks: Locks): void {
    const limit = locks.rateLimit('mail', { permits: 2, perMs: 1_000 });
    this.#follow('rateLimit', limit.take(1, { waitMs: 400, signal: this.#signal() }));
  }

  #close(locks: Locks): void {
    this.#closed.add(locks);
    this.tally.closed += 1;
    this.#follow('close', locks.close({ drainMs: this.#dice.pick([0, 1_000]) }));
  }

  async #passTime(): Promise<void> {
    const ms = this.#dice.pick([1, 30, 150, 500, 1_200, 6_000]);
    if (this.#dice.chance(0.05)) this.#clock.jumpWall(this.#dice.pick([-FOREVER_MS, FOREVER_MS]));
    else await (this.#dice.chance(0.1) ? this.#clock.stall(ms) : this.#clock.advance(ms));
  }

  /** A hold that its user gives back by returning. */
  async #workUnder(hold: Hold, name: string): Promise<void> {
    const held = this.#take(hold, [name], false, () => hold.fence);
    await this.#pause(this.#dice.pick([1, 300, 3_000]), hold.signal);
    this.#held.delete(held);
  }

  #take(hold: AnyHold, names: readonly string[], isByHand: boolean, fenceOf: (name: string) => bigint): Held {
    this.tally.held += 1;
    const held: Held = { hold, names, isByHand, wasLost: false };
    this.#held.add(held);
    for (const name of names) this.#rise(name, fenceOf(name));
    return held;
  }

  get #byHand(): Held[] {
    return [...this.#held].filter(({ isByHand }) => isByHand);
  }

  #giveBack(held: Held): void {
    this.#held.delete(held);
    this.#follow('release', held.hold.release());
  }

  #rise(name: string, fence: bigint): void {
    if (fence <= (this.#fences.get(name) ?? 0n)) this.#fail(`the fence of ${name} did not rise`);
    this.#fences.set(name, fence);
  }

  /** Those who may trust their holds at this instant must exclude each other. */
  #check(): void {
    const holders = new Set<string>();
    for (const held of this.#held) {
      const isTrusted = held.hold.remainingMs > 0;
      if (isTrusted && held.wasLost) this.#fail(`${held.names} came back after it was lost`);
      if (!isTrusted && !held.wasLost) this.tally.lost += 1;
      held.wasLost ||= !isTrusted;
      for (const name of isTrusted ? held.names : []) {
        if (holders.has(name)) this.#fail(`two hold ${name}`);
        holders.add(name);
      }
    }
    if (this.#candidates.filter(({ isLeader }) => isLeader).length > 1) this.#fail('two lead');
    if (this.#problem !== null) throw this.#problem;
  }

  #pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      this.#clock.startTimer(ms, resolve);
      signal?.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  #signal(): AbortSignal {
    const controller = new AbortController();
    this.#aborts.add(controller);
    return controller.signal;
  }

  /** Whether it succeeds is not the question, only that it ends. */
  #follow(what: string, work: Promise<unknown>): void {
    const ended: Promise<unknown> = work
      .catch(() => {})
      .finally(() => {
        this.#pending.delete(ended);
      });
    this.#pending.set(ended, what);
  }

  /** Kept, since what is thrown in a user's function belongs to that user. */
  #fail(problem: string): void {
    this.#problem ??= new Error(problem);
  }
}
