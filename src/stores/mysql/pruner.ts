import type { Clock } from '../../clock.ts';
import { PruneTimer } from '../shared/prune-timer.ts';
import type { RowReading } from './lock-row.ts';
import { greatest, NOBODY, RowQueue } from './row-queue.ts';
import type { Statements } from './statements.ts';

/** How many pages of 1,000 rows are looked at each time: more than come, so that the table does not grow. */
const PAGES = 4;
export const PAGE_ROWS = 1_000;
/** A lock that was in use a moment ago may be so again. */
const IDLE_US = 1_000_000;

export interface PrunerOptions {
  readonly clock: Clock;
  readonly statements: Statements;
  /** The rows after that name, as many as a page has. */
  readPage(after: string): Promise<readonly RowReading[]>;
  run(text: string, value: string): Promise<unknown>;
}

/** Deletes the rows of locks that are not in use any more, as often as new ones are made. */
export class Pruner {
  readonly #statements: Statements;
  readonly #readPage: PrunerOptions['readPage'];
  readonly #run: PrunerOptions['run'];
  readonly #timer: PruneTimer;
  /** Where the next page begins. */
  #after = '';

  constructor({ clock, statements, readPage, run }: PrunerOptions) {
    this.#statements = statements;
    this.#readPage = readPage;
    this.#run = run;
    this.#timer = new PruneTimer({ clock, prune: () => this.#prune() });
  }

  /** A lock that had no row has one now. */
  onNewRow(): void {
    this.#timer.onNewRow();
  }

  close(): void {
    this.#timer.close();
  }

  async #prune(): Promise<boolean> {
    let isLeft = false;
    try {
      for (let page = 0; page < PAGES && !this.#timer.isClosed; page += 1)
        isLeft = (await this.#prunePage()) || isLeft;
    } catch {
      // Tried again after the next rows. Nothing depends on when.
    }
    return isLeft;
  }

  /** Whether there were rows that could not be deleted. */
  async #prunePage(): Promise<boolean> {
    const { RAISE_FLOOR, PRUNE } = this.#statements;
    const page = await this.#readPage(this.#after);
    this.#after = page.length < PAGE_ROWS ? '' : (page.at(-1)?.row.name ?? '');
    const idle = page.filter(isIdle).map(({ row }) => row);
    if (idle.length === 0) return page.length > 0;
    // First: a floor that is too high does no harm.
    await this.#run(RAISE_FLOOR, `${greatest(idle.map(({ fence }) => fence))}`);
    await this.#run(PRUNE, JSON.stringify(idle.map(({ name, version }) => [name, version])));
    return page.length > idle.length;
  }
}

function isIdle(reading: RowReading): boolean {
  const { row, nowUs } = reading;
  return row.changedAtUs < nowUs - IDLE_US && new RowQueue(reading, NOBODY).read().length === 0;
}
