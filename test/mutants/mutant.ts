/**
 * Deliberate mistakes, each of them one that a lock library has really made or could easily make. The suite must catch every one of them: it is only as good as what it notices.
 */
export interface Mutant {
  /** The mistake, in words. */
  readonly mistake: string;
  readonly file: string;
  /** Stands exactly once in the file. */
  readonly find: string;
  readonly replace: string;
  /** The file of the test that must notice, and words of its title. */
  readonly test: string;
  readonly by: string;
}
