import { StoreError } from '../../errors.ts';

/** So many that the servers have enough to do, and so few that what is urgent waits for a fraction of a second. */
const AT_ONCE_MAX = 256;

/**
 * What can wait: entering a line, asking again from within it, watching what is ahead. All requests of a session are answered in order, and all answers are worked off in one process, so ten thousand of these at once would
 * keep renewals, releases and signs of life waiting for seconds, and cost the holds. Those do not come this way. Whoever stands in a line already goes before those who want to enter one.
 */
export class Gate {
  readonly #isOpen: () => boolean;
  readonly #standing: (() => void)[] = [];
  readonly #coming: (() => void)[] = [];
  #underWay = 0;

  constructor(isOpen: () => boolean) {
    this.#isOpen = isOpen;
  }

  /** In order among its kind. Rejects with `applied: 'no'` when the connection is gone by the time that it is this one's turn. The work must not come this way again: it would wait for itself. */
  run<T>(work: () => Promise<T>, isStanding: boolean): Promise<T> {
    const queue = isStanding ? this.#standing : this.#coming;
    if (this.#underWay < AT_ONCE_MAX && queue.length === 0) return this.#start(work);
    return new Promise<T>((resolve, reject) => {
      queue.push(() => {
        if (this.#isOpen()) this.#start(work).then(resolve, reject);
        else reject(new StoreError('The connection was lost before this was sent', { applied: 'no' }));
      });
    });
  }

  async #start<T>(work: () => Promise<T>): Promise<T> {
    this.#underWay += 1;
    try {
      return await work();
    } finally {
      this.#underWay -= 1;
      this.#next();
    }
  }

  #next(): void {
    // One that is not sent at all makes room for the one behind it.
    while (this.#underWay < AT_ONCE_MAX) {
      const next = this.#standing.shift() ?? this.#coming.shift();
      if (next === undefined) return;
      next();
    }
  }
}
