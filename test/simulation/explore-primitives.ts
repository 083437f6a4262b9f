import { type Candidate, createLocks, type Hold, type Locks } from '../../src/index.ts';
import { SeededRun } from './seeded-run.ts';
import { takeSteps } from './violation.ts';

/** A hold on one lock or on several. */
type AnyHold = Pick<Hold, 'remainingMs' | 'signal' | 'release'>;

interface Held {
  readonly hold: AnyHold;
  readonly names: readonly string[];
  /** Released by a call, and not at the end of a function. */
  readonly isByHand: boolean;
  wasLost: boolean;
}

const NAMES = ['a', 'b', 'c'];
export const STEPS = 60;
/** Rounds of 250 ms in which everything must end once no message is lost any more. */
const ROUNDS = 400;
const FOREVER_MS = 3_600_000;

/** What happened in a run, so that a test can check that enough did. */
export type Tally = Record<'held' | 'lost' | 'elected' | 'led' | 'ran' | 'closed', number>;

/**
 * One interleaving, chosen by the seed, of several locks at once, candidates, leaders, once-only
 * runs, rate limits and closing, over three processes whose messages are late or lost. Throws at
 * the first violation, when something is stuck, and when something is left at the end.
 */
export async function explorePrimitives(seed: number, leftOut?: ReadonlySet<string>): Promise<Tally> {
  const run = new Run(seed);
  await takeSteps(run, STEPS, leftOut);
  return run.tally;
}

class Run extends SeededRun {
  readonly tally: Tally = { held: 0, lost: 0, elected: 0, led: 0, ran: 0, closed: 0 };
  readonly #processes: Locks[];
  readonly #closed = new Set<Locks>();
  readonly #held = new Set<Held>();
  readonly #fences = new Map<string, bigint>();
  readonly #candidates: Candidate[] = [];
  readonly #aborts = new Set<AbortController>();
  /** The pending work, by its description. */
  readonly #pending = new Map<Promise<unknown>, string>();
  #problem: unknown = null;
  /** When the store confirmed that a run is remembered. */
  #rememberedAtMs: number | null = null;
  #isMemoryUnsure = false;

  constructor(seed: number) {
    super(seed);
    this.#processes = ['p1', 'p2', 'p3'].map((owner) => {
      const ttlMs = this.random.pick([500, 2_000, 5_000]);
      const locks = createLocks(this.network.connect(owner), { clock: this.clock, owner, ttlMs });
      // The outcome is unknown, and an unanswered renewal may arrive last and shorten the record.
      for (const event of ['releaseFailed', 'renewFailed'] as const) {
        locks.on(event, ({ name }) => {
          if (name === 'job') this.#isMemoryUnsure = true;
        });
      }
      return locks;
    });
  }

  async step(step: string): Promise<void> {
    this.beginStep(step);
    const roll = this.random.roll();
    if (this.network.messages.length > 0 && roll < 0.6) {
      const message = this.network.take(this.random.below(this.network.messages.length));
      const isLost = this.random.chance(0.1);
      this.trace.push(`${isLost ? 'lose' : 'deliver'} ${message.process} ${message.kind} ${message.label}`);
      if (isLost) message.lose();
      else message.deliver();
    } else if (roll < 0.8) this.#act();
    else await this.#passTime();
    await this.clock.settle();
    this.#check();
  }

  /**
   * Faults stop, every message is delivered, every user finishes and every process closes: no
   * caller may be stuck and nothing may be left.
   */
  async quiesce(): Promise<void> {
    for (const candidate of this.#candidates.splice(0)) this.#follow('stop', candidate.stop());
    for (let round = 0; round < ROUNDS && (this.#pending.size > 0 || round < 50); round += 1) {
      for (const held of this.#byHand) this.#giveBack(held);
      if (round === 40) for (const each of [...this.#aborts]) each.abort(new Error('the end'));
      if (round === 45)
        for (const locks of this.#processes) this.#follow('close', locks.close({ drainMs: 1_000 }));
      while (this.network.messages.length > 0) {
        this.network.take(0).deliver();
        await this.clock.settle();
        this.#check();
      }
      await this.clock.advance(250);
      this.#check();
    }
    if (this.#pending.size > 0) throw new Error(`stuck: ${[...this.#pending.values()].join(', ')}`);
    for await (const name of this.store.list('')) {
      // A finished run and a permit of a rate limit are left on purpose.
      if (!/^(?:once|rate)\W/.test(name)) throw new Error(`left in the store: ${name}`);
    }
  }

  #act(): void {
    const locks = this.random.pick(this.#processes);
    const roll = this.random.roll();
    if (roll < 0.35) this.#takeAll(locks);
    else if (roll < 0.5 && this.#byHand.length > 0) this.#giveBack(this.random.pick(this.#byHand));
    else if (roll < 0.58) this.#once(locks);
    else if (roll < 0.68) this.#stand(locks);
    else if (roll < 0.75) this.#lead(locks);
    else if (roll < 0.8) this.#limit(locks);
    else if (roll < 0.85) this.#withLock(locks);
    else if (roll < 0.9 && this.#candidates.length > 0) {
      const [candidate] = this.#candidates.splice(this.random.below(this.#candidates.length), 1);
      if (candidate !== undefined) this.#follow('stop', candidate.stop());
    } else if (roll < 0.92 && this.#closed.size < 2) this.#close(locks);
    else if (this.#aborts.size > 0) this.random.pick([...this.#aborts]).abort(new Error('aborted'));
  }

  #takeAll(locks: Locks): void {
    const lock = locks.all([this.random.pick(NAMES), this.random.pick(NAMES)], {
      maxHoldMs: this.random.pick([Number.POSITIVE_INFINITY, 300, 3_000]),
      signal: this.#signal(),
    });
    const waitMs = this.random.pick([0, 400, 20_000]);
    const taking = this.random.chance(0.3) ? lock.tryAcquire() : lock.acquire({ waitMs });
    this.#follow(
      'all',
      taking.then((hold) => {
        if (hold !== null) this.#take(hold, hold.names, true, (name) => hold.fenceOf(name));
      }),
    );
  }

  #withLock(locks: Locks): void {
    const name = this.random.pick(NAMES);
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
        this.#fail(`ran again ${this.clock.monotonicMs() - this.#rememberedAtMs} ms after it was done`);
      await this.#workUnder(hold, 'once');
    };
    const running = locks.once('job', run, { rememberMs: FOREVER_MS, signal: this.#signal() });
    this.#follow(
      'once',
      running.then(({ ran }) => {
        if (ran) this.#rememberedAtMs = this.clock.monotonicMs();
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
      // Some end late.
      await this.#pause(1_000, this.random.chance(0.5) ? term.signal : undefined);
      terms -= 1;
      if (this.random.chance(0.1)) throw new Error('tired of it');
    };
    // Without `onLost`, each error would be a process warning.
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
    this.#follow('close', locks.close({ drainMs: this.random.pick([0, 1_000]) }));
  }

  async #passTime(): Promise<void> {
    const ms = this.random.pick([1, 30, 150, 500, 1_200, 6_000]);
    this.trace.push(`pass ${ms}`);
    if (this.random.chance(0.05)) this.clock.jumpWall(this.random.pick([-FOREVER_MS, FOREVER_MS]));
    else await (this.random.chance(0.1) ? this.clock.stall(ms) : this.clock.advance(ms));
  }

  /** A hold that ends when the function returns. */
  async #workUnder(hold: Hold, name: string): Promise<void> {
    const held = this.#take(hold, [name], false, () => hold.fence);
    await this.#pause(this.random.pick([1, 300, 3_000]), hold.signal);
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

  /** Holds that are trusted at the same instant must exclude each other. */
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
      this.clock.startTimer(ms, resolve);
      signal?.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  #signal(): AbortSignal {
    const controller = new AbortController();
    this.#aborts.add(controller);
    return controller.signal;
  }

  /** The work may fail, but it must end. */
  #follow(what: string, work: Promise<unknown>): void {
    this.trace.push(what);
    const ended: Promise<unknown> = work
      .catch(() => {})
      .finally(() => {
        this.#pending.delete(ended);
      });
    this.#pending.set(ended, what);
  }

  /** Recorded, because an error inside a user's function is not seen otherwise. */
  #fail(problem: string): void {
    this.#problem ??= new Error(problem);
  }
}
