import { checkCount, checkKeys } from '../../checks.ts';
import type { LocksOptions } from '../../options.ts';
import { SIMULATED_FAULTS, type SimulatedFault } from './faults.ts';
import { type HistoryOptions, type HistoryOutcome, playHistory, type Scenario } from './history.ts';
import { shrink } from './shrink.ts';

/** How many histories are simulated, and of which kind. */
export interface SimulateOptions {
  /** 1,000 unless set. */
  readonly histories?: number | undefined;
  /** The seed of the first history; the next history has the next seed. 1 unless set. */
  readonly seed?: number | undefined;
  /** 3 unless set. */
  readonly processes?: number | undefined;
  /** Every kind unless set. */
  readonly faults?: readonly SimulatedFault[] | undefined;
  /** For the Locks of every process. */
  readonly locks?: Omit<LocksOptions, 'clock' | 'owner'> | undefined;
  /** A process that still runs after this much virtual time is stuck. Ten minutes unless set. */
  readonly limitMs?: number | undefined;
}

/** What happened, so that a test can require that enough did. */
export interface SimulationReport {
  readonly histories: number;
  /** How many holds were granted, and how many of them were lost. */
  readonly held: number;
  readonly lost: number;
  readonly faults: Readonly<Record<SimulatedFault, number>>;
}

/** A history that failed. The same seed and the same options repeat it exactly. */
export class SimulationError extends Error {
  override readonly name = 'SimulationError';
  readonly seed: number;
  /** The shortest history that was found to fail, a line an event. */
  readonly story: readonly string[];

  constructor(seed: number, problem: unknown, story: readonly string[]) {
    super(`seed ${seed}: ${problem}\n${story.join('\n')}`, { cause: problem });
    this.seed = seed;
    this.story = story;
  }
}

const HISTORIES = 1_000;
const PROCESSES = 3;
const LIMIT_MS = 600_000;

/**
 * Runs a scenario over the real core with a simulated store, network and clocks, once for each seed.
 * Messages are late or lost, processes pause and crash, wall clocks jump. Rejects with a
 * `SimulationError` at the first history that fails, with the faults removed that it does not need.
 */
export async function simulate<State>(
  scenario: Scenario<State>,
  options: SimulateOptions = {},
): Promise<SimulationReport> {
  checkKeys(options, ['histories', 'seed', 'processes', 'faults', 'locks', 'limitMs']);
  const { histories = HISTORIES, seed: first = 1 } = options;
  checkCount('histories', histories, 1, Number.MAX_SAFE_INTEGER);
  const faults = { delay: 0, loss: 0, pause: 0, crash: 0, clock: 0 };
  let held = 0;
  let lost = 0;
  for (let seed = first; seed < first + histories; seed += 1) {
    const history: HistoryOptions = {
      seed,
      processes: options.processes ?? PROCESSES,
      faults: options.faults ?? SIMULATED_FAULTS,
      locks: options.locks ?? {},
      limitMs: options.limitMs ?? LIMIT_MS,
    };
    const outcome = await playHistory(scenario, history);
    if (outcome.problem !== null) throw await shortest(scenario, history, outcome);
    held += outcome.held;
    lost += outcome.lost;
    for (const { fault } of outcome.occurred) faults[fault] += 1;
  }
  return { histories, held, lost, faults };
}

async function shortest<State>(
  scenario: Scenario<State>,
  history: HistoryOptions,
  failed: HistoryOutcome,
): Promise<SimulationError> {
  const keysOf = ({ occurred }: HistoryOutcome): readonly string[] => occurred.map(({ key }) => key);
  let best = failed;
  await shrink(keysOf(failed), async (leftOut) => {
    const outcome = await playHistory(scenario, { ...history, leftOut });
    if (outcome.problem === null) return null;
    best = outcome;
    return keysOf(outcome);
  });
  return new SimulationError(history.seed, best.problem, best.story);
}
