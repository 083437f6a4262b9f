import type { Clock, Timer } from '../../clock.ts';

export interface PruneTimerOptions {
  readonly clock: Clock;
  /** After this many new rows the tables are pruned at once. Default: never at once. */
  readonly rowsMany?: number;
  /**
   * Deletes the rows of unused locks. `isAfterMany`: many rows are new. Resolves to whether other
   * rows may become unused soon. Never rejects: the next new rows start another pruning, and nothing
   * depends on its time.
   */
  prune(isAfterMany: boolean): Promise<boolean>;
}

/** The tables are pruned soon after this many new rows, and else after a minute. */
const ROWS = 1_000;
const SOON_MS = 200;
const LATER_MS = 60_000;

/** Starts the pruning of a store's tables, as often as new rows are created. */
export class PruneTimer {
  readonly #clock: Clock;
  readonly #rowsMany: number;
  readonly #prune: PruneTimerOptions['prune'];
  #timer: Timer | null = null;
  #isSoon = false;
  #isRunning = false;
  #isClosed = false;
  #made = 0;

  constructor({ clock, rowsMany = Number.POSITIVE_INFINITY, prune }: PruneTimerOptions) {
    this.#clock = clock;
    this.#rowsMany = rowsMany;
    this.#prune = prune;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  onNewRow(): void {
    this.#made += 1;
    if (this.#made >= this.#rowsMany) this.#start(0);
    else if (this.#made >= ROWS && !this.#isSoon) this.#start(SOON_MS);
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
    const isMoreLater = await this.#prune(wasSoon);
    this.#isRunning = false;
    if (this.#made >= ROWS) this.#start(this.#made >= this.#rowsMany ? 0 : SOON_MS);
    else if (this.#made > 0 || isMoreLater) this.#start(LATER_MS);
  }
}
