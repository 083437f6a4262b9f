import type { Clock, Timer } from '../../clock.ts';

/** So many new rows are pruned soon, fewer after a while, and very many at once. */
const ROWS = 1_000;
const ROWS_MANY = 2_000;
const SOON_MS = 200;
const LATER_MS = 60_000;
/** As `prune` of `migrations/` deletes at most in one step, and how many steps in a row. */
const STEP = 5_000;
const STEPS_MAX = 10;
/** After so many deleted rows their space is given back: the server's own cleaning comes once a minute. */
const VACUUM_ROWS = 2_000;

/** Has the rows of locks deleted that nobody uses any more, as often as new ones are made. */
export class Pruner {
  readonly #clock: Clock;
  readonly #prune: () => Promise<number>;
  readonly #vacuum: () => Promise<void>;
  #timer: Timer | null = null;
  #isSoon = false;
  #isRunning = false;
  #made = 0;
  #deleted = 0;
  #isClosed = false;

  constructor(clock: Clock, prune: () => Promise<number>, vacuum: () => Promise<void>) {
    this.#clock = clock;
    this.#prune = prune;
    this.#vacuum = vacuum;
  }

  /** A new lock has a row. */
  onMade(): void {
    this.#made += 1;
    if (this.#made >= ROWS_MANY) this.#start(0);
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
    let sum = 0;
    try {
      for (let step = 0; step < STEPS_MAX; step += 1) {
        const deleted = await this.#prune();
        sum += deleted;
        if (deleted < STEP) break;
      }
      this.#deleted += sum;
      if (this.#deleted >= VACUUM_ROWS) {
        this.#deleted = 0;
        await this.#vacuum();
      }
    } catch {
      // Somebody prunes after the next rows. Nothing depends on when.
    } finally {
      this.#isRunning = false;
    }
    if (this.#made >= ROWS) this.#start(this.#made >= ROWS_MANY ? 0 : SOON_MS);
    // Some were still in use, or had been a moment ago.
    else if (this.#made > 0 || wasSoon || sum > 0) this.#start(LATER_MS);
  }
}
