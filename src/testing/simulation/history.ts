import { HoldfastError } from '../../errors.ts';
import { createLocks, type Locks } from '../../locks.ts';
import type { LocksOptions } from '../../options.ts';
import { memoryStore } from '../../stores/memory/memory-store.ts';
import { type VirtualClock, virtualClock } from '../virtual-clock.ts';
import { Faults, type Occurrence, type SimulatedFault } from './faults.ts';
import { type Message, Network } from './network.ts';
import { ProcessClock } from './process-clock.ts';
import { seedOf } from './seeded-random.ts';

/** One process of a simulated history. */
export interface SimulatedProcess<State> {
  /** `p1`, `p2` and so on. */
  readonly name: string;
  /** The real core, over a simulated network. */
  readonly locks: Locks;
  /** What `setUp` made. All processes of a history share it: the resource that the lock protects. */
  readonly state: State;
  /** Resolves when this much of the virtual time of this process has passed. */
  sleep(ms: number): Promise<void>;
  /** Adds a line to the story of this history. */
  log(text: string): void;
}

/** What every process of a history runs, and what must be true. */
export interface Scenario<State> {
  /** Makes the state of one history. */
  setUp(): State;
  /**
   * Runs in every process at once. A rejection with an error that an outage causes (a timeout, a lost
   * hold, an unreachable store, a stale fence) is expected. Any other rejection fails the history.
   */
  run(process: SimulatedProcess<State>): Promise<void>;
  /** After every process has ended or crashed. Throws when the state is wrong. */
  check?(state: State): void;
}

/** What one history needs besides its scenario. */
export interface HistoryOptions {
  readonly seed: number;
  readonly processes: number;
  readonly faults: readonly SimulatedFault[];
  readonly locks: LocksOptions;
  /** Virtual time. A process that still runs then is stuck. */
  readonly limitMs: number;
  /** The keys of the faults that do not occur. */
  readonly leftOut?: ReadonlySet<string>;
}

/** What happened in one history. */
export interface HistoryOutcome {
  /** `null`: every promise was kept. */
  readonly problem: unknown;
  readonly story: readonly string[];
  readonly occurred: readonly Occurrence[];
  readonly held: number;
  readonly lost: number;
}

/** What a faulty network or a paused process makes of a correct program. */
const EXPECTED: ReadonlySet<string> = new Set([
  'ACQUIRE_TIMEOUT',
  'QUEUE_FULL',
  'HOLD_LOST',
  'STALE_FENCE',
  'STORE',
  'QUORUM',
  'CLOSED',
]);
const DEFAULT_TTL_MS = 30_000;
/** The virtual time between two looks at whether all processes have ended. */
const STEP_MS = 250;
const CLOSE_MS = 60_000;
const ARROW = { request: '→', reply: '←', 'wake-up': '←' };

export function playHistory<State>(
  scenario: Scenario<State>,
  options: HistoryOptions,
): Promise<HistoryOutcome> {
  return new History(scenario, options).play();
}

class History<State> {
  readonly #scenario: Scenario<State>;
  readonly #options: HistoryOptions;
  readonly #clock: VirtualClock;
  readonly #network: Network;
  readonly #faults: Faults;
  readonly #clocks = new Map<string, ProcessClock>();
  readonly #running = new Set<string>();
  readonly #story: string[] = [];
  readonly #state: State;
  #problem: unknown = null;
  #held = 0;
  #lost = 0;
  #isCalm = false;

  constructor(scenario: Scenario<State>, options: HistoryOptions) {
    this.#scenario = scenario;
    this.#options = options;
    this.#clock = virtualClock({ seed: options.seed });
    this.#network = new Network(memoryStore({ clock: this.#clock }), (message) => this.#post(message));
    const ttlMs = options.locks.ttlMs ?? DEFAULT_TTL_MS;
    this.#faults = new Faults(options.seed, ttlMs, options.faults, options.leftOut);
    this.#state = scenario.setUp();
  }

  async play(): Promise<HistoryOutcome> {
    const names = Array.from({ length: this.#options.processes }, (_, n) => `p${n + 1}`);
    const all = names.map((name) => this.#start(name));
    await this.#until(() => this.#running.size === 0, this.#options.limitMs);
    if (this.#running.size > 0) this.#fail(new Error(`stuck: ${[...this.#running].join(', ')}`));
    this.#isCalm = true;
    const alive = all.filter(({ clock }) => !clock.hasCrashed);
    let open = alive.length;
    for (const { locks } of alive) void locks.close({ drainMs: 0 }).finally(() => (open -= 1));
    await this.#until(() => open === 0, CLOSE_MS);
    if (open > 0) this.#fail(new Error('a Locks does not close'));
    try {
      this.#scenario.check?.(this.#state);
    } catch (error) {
      this.#fail(error);
    }
    const [held, lost] = [this.#held, this.#lost];
    return { problem: this.#problem, story: this.#story, occurred: this.#faults.occurred, held, lost };
  }

  #start(name: string): { locks: Locks; clock: ProcessClock } {
    const clock = new ProcessClock(this.#clock, seedOf(this.#options.seed, name));
    this.#clocks.set(name, clock);
    const locks = createLocks(this.#network.connect(name), { ...this.#options.locks, clock, owner: name });
    const log = (text: string): void => this.#tell(name, text);
    locks.on('acquired', (event) => {
      this.#held += 1;
      log(`holds ${event.name}, fence ${event.fence}`);
    });
    locks.on('lost', (event) => {
      this.#lost += 1;
      log(`lost ${event.name}: ${event.how}`);
    });
    const sleep = (ms: number): Promise<void> => clock.sleep(ms);
    this.#running.add(name);
    this.#scenario
      .run({ name, locks, state: this.#state, sleep, log })
      .then(
        () => log('has ended'),
        (error: unknown) => {
          log(`has ended: ${error}`);
          if (!(error instanceof HoldfastError && EXPECTED.has(error.code))) this.#fail(error);
        },
      )
      .finally(() => this.#running.delete(name));
    return { locks, clock };
  }

  /** Lets the message travel, unless it is lost, and lets its process pause, crash or change its clock. */
  #post(message: Message): void {
    const { process, kind, label } = message;
    const clock = this.#clocks.get(process);
    if (clock === undefined || clock.hasCrashed) return;
    const fate = this.#isCalm ? null : this.#faults.fateOf(process);
    const isLost = fate !== null && fate.lost !== null;
    this.#tell(process, `${ARROW[kind]} ${label}${isLost ? ' (lost)' : ''}`);
    const arrive = (): void => {
      if (isLost && fate.lost === 'silent') return;
      if (isLost) clock.run(message.lose);
      else if (kind === 'request') message.deliver();
      else clock.run(message.deliver);
    };
    this.#clock.startTimer(fate?.delayMs ?? 1, arrive);
    if (fate === null) return;
    if (fate.wallJumpMs !== null) {
      clock.jumpWall(fate.wallJumpMs);
      this.#tell(process, `wall clock jumps by ${fate.wallJumpMs} ms`);
    }
    if (fate.pauseMs !== null) {
      clock.pause(fate.pauseMs);
      this.#tell(process, `is paused for ${fate.pauseMs} ms`);
    }
    if (fate.crashes) {
      clock.crash();
      this.#running.delete(process);
      this.#tell(process, 'crashes');
    }
  }

  async #until(isOver: () => boolean, withinMs: number): Promise<void> {
    const endMs = this.#clock.monotonicMs() + withinMs;
    while (!isOver() && this.#problem === null && this.#clock.monotonicMs() < endMs)
      await this.#clock.advance(STEP_MS);
  }

  #tell(process: string, text: string): void {
    this.#addLine(`${process}  ${text}`);
  }

  #fail(problem: unknown): void {
    if (this.#problem !== null) return;
    this.#problem = problem;
    this.#addLine(String(problem));
  }

  #addLine(text: string): void {
    this.#story.push(`${String(Math.round(this.#clock.monotonicMs())).padStart(7)} ms  ${text}`);
  }
}
