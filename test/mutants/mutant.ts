/**
 * A planted defect that a lock library has had, or could easily have. The suite must catch every
 * one.
 */
export interface Mutant {
  /** The defect, in words. */
  readonly mistake: string;
  /**
   * The function or method with the defect: `elapsedMs`, `Renewals.#onFailure`. A symbol and not a
   * file, so that a mutant survives moves.
   */
  readonly symbol: string;
  /** Occurs exactly once in the source of the symbol. Left out: the whole body is replaced. */
  readonly find?: string;
  readonly replace: string;
  /** The file of the test that must catch it, and words of its title. */
  readonly test: string;
  readonly by: string;
}
