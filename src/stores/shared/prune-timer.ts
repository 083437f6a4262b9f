import type { Clock, Timer } from '../../clock.ts';

/**
 * Deletes the rows of unused locks. `isAfterMany`: called because many rows are new.
 * Resolves to true when more rows may become unused soon. A failed prune is repeated after the next
 * new rows: it does not matter when.
 */
export type Prune = (isAfterMany: boolean) => Promise<boolean>;

/** The tables are pruned at once after this many new rows, otherwise a minute after the first. */
const ROWS_MANY = 1_000;
const LATER_MS = 60_000;

/** Decides when a store prunes its tables, from the number of new rows. */
export class PruneTimer {
  readonly #clock: Clock;
  readonly #prune: Prune;
  #timer: Timer | null = null;
  #isRunning = false;
  #isClosed = false;
  #made = 0;

  constructor(clock: Clock, prune: Prune) {
    this.#clock = clock;
    this.#prune = prune;
  }

  onNewRow(): void {
    this.#made += 1;
    this.#plan();
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  #plan(): void {
    if (this.#isRunning || this.#isClosed) return;
    if (this.#made >= ROWS_MANY) void this.#run();
    else this.#timer ??= this.#clock.startTimer(LATER_MS, () => void this.#run());
  }

  async #run(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = null;
    this.#isRunning = true;
    const isAfterMany = this.#made >= ROWS_MANY;
    this.#made = 0;
    const hasMoreLater = await this.#prune(isAfterMany).catch(() => false);
    this.#isRunning = false;
    if (this.#made > 0 || hasMoreLater) this.#plan();
  }
}
