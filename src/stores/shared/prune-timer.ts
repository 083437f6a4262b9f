import type { Clock, Timer } from '../../clock.ts';

export interface PruneTimerOptions {
  readonly clock: Clock;
  /** After this many new rows the tables are pruned at once. Default: never at once. */
  readonly rowsForImmediatePrune?: number;
  /**
   * Deletes the rows of unused locks. `isAfterMany`: called because many rows are new.
   * Resolves to true when more rows may become unused soon. A failed prune is repeated after the next
   * new rows: it does not matter when.
   */
  prune(isAfterMany: boolean): Promise<boolean>;
}

/** The tables are pruned 200 ms after this many new rows; after fewer, once a minute. */
const ROWS_FOR_SOON = 1_000;
const SOON_MS = 200;
const LATER_MS = 60_000;

/** Decides when a store prunes its tables, from the number of new rows. */
export class PruneTimer {
  readonly #clock: Clock;
  readonly #rowsForImmediatePrune: number;
  readonly #prune: PruneTimerOptions['prune'];
  #timer: Timer | null = null;
  #isSoon = false;
  #isRunning = false;
  #isClosed = false;
  #made = 0;

  constructor({ clock, rowsForImmediatePrune = Number.POSITIVE_INFINITY, prune }: PruneTimerOptions) {
    this.#clock = clock;
    this.#rowsForImmediatePrune = rowsForImmediatePrune;
    this.#prune = prune;
  }

  onNewRow(): void {
    this.#made += 1;
    if (this.#made >= this.#rowsForImmediatePrune) this.#start(0);
    else if (this.#made >= ROWS_FOR_SOON && !this.#isSoon) this.#start(SOON_MS);
    else if (this.#timer === null) this.#start(LATER_MS);
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  #start(ms: number): void {
    if (this.#isRunning || this.#isClosed) return;
    this.#timer?.cancel();
    this.#isSoon = ms <= SOON_MS;
    if (ms === 0) void this.#run();
    else this.#timer = this.#clock.startTimer(ms, () => void this.#run());
  }

  async #run(): Promise<void> {
    const wasSoon = this.#isSoon;
    this.#timer = null;
    this.#isSoon = false;
    this.#isRunning = true;
    this.#made = 0;
    const hasMoreLater = await this.#prune(wasSoon).catch(() => false);
    this.#isRunning = false;
    if (this.#made >= ROWS_FOR_SOON) this.#start(this.#made >= this.#rowsForImmediatePrune ? 0 : SOON_MS);
    else if (this.#made > 0 || hasMoreLater) this.#start(LATER_MS);
  }
}
