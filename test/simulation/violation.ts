import { shrink } from '../../src/testing/simulation/shrink.ts';

/** A broken promise, with the steps that led to it. */
export class Violation extends Error {
  override readonly name = 'Violation';
  readonly trace: readonly string[];

  constructor(problem: unknown, trace: readonly string[]) {
    super(`${problem instanceof Error ? problem.message : problem}\n  ${trace.join('\n  ')}`, {
      cause: problem,
    });
    this.trace = trace;
  }
}

/** Runs the interleaving of a seed without the steps that are left out. */
export type Explore<T> = (seed: number, leftOut?: ReadonlySet<string>) => Promise<T>;

/** An interleaving that is explored step by step. */
export interface Interleaving {
  readonly trace: readonly string[];
  step(step: string): Promise<void>;
  /** Faults stop and every user finishes. */
  quiesce(): Promise<void>;
}

/** The names of the steps of an interleaving, for leaving them out. */
const stepsUpTo = (count: number): string[] => Array.from({ length: count }, (_, n) => String(n));

/** Takes the steps that are not left out, and throws a `Violation` when one breaks a promise. */
export async function takeSteps(
  run: Interleaving,
  count: number,
  leftOut: ReadonlySet<string> = new Set(),
): Promise<void> {
  try {
    for (const step of stepsUpTo(count)) if (!leftOut.has(step)) await run.step(step);
    await run.quiesce();
  } catch (error) {
    throw new Violation(error, run.trace);
  }
}

/** Explores one seed. A violation is thrown with as few steps as were found to lead to it. */
export async function exploreOrShrink<T>(explore: Explore<T>, seed: number, steps: number): Promise<T> {
  try {
    return await explore(seed);
  } catch (error) {
    let best = error;
    const causes = stepsUpTo(steps);
    await shrink(causes, async (leftOut) => {
      try {
        await explore(seed, leftOut);
        return null;
      } catch (shorter) {
        best = shorter;
        return causes.filter((step) => !leftOut.has(step));
      }
    });
    throw new Error(`seed ${seed}`, { cause: best });
  }
}
