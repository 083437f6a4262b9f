import type { Settings } from '../options.ts';
import type { Mode } from '../store/store.ts';

/** What a caller wants: which lock, how, and on which terms. */
export interface Want {
  readonly name: string;
  readonly mode: Mode;
  readonly settings: Settings;
  /** Chosen by the caller only where several claims belong together. */
  readonly id?: string;
  /** By the monotonic clock. Given where the wait has begun with other claims. */
  readonly startedMs?: number;
  /** A refusal is no event. */
  readonly isQuiet?: boolean;
  /** It is enough that the claim was granted: nobody will hold it, and it runs out by itself. */
  readonly detached?: boolean;
}
