/** Ends a turn, so that the next one of its key begins. */
export type EndTurn = () => void;

/**
 * Gives the turns of each key one at a time, in the order of the calls. Work that fails does not stop
 * the work behind it.
 */
export class Turns {
  /** By key: when its last turn so far is over. */
  readonly #last = new Map<string, Promise<void>>();

  /** A turn has begun, or waits to begin. */
  has(key: string): boolean {
    return this.#last.has(key);
  }

  /** Begins a turn at once, or resolves when the earlier ones of the key are over. */
  begin(key: string): EndTurn | Promise<EndTurn> {
    const before = this.#last.get(key);
    let end: EndTurn = () => {};
    const over = new Promise<void>((resolve) => {
      end = () => {
        if (this.#last.get(key) === over) this.#last.delete(key);
        resolve();
      };
    });
    this.#last.set(key, over);
    return before === undefined ? end : before.then(() => end);
  }

  /** Runs the work in a turn of its own, and calls it at once if no other turn is ahead. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const turn = this.begin(key);
    const end = typeof turn === 'function' ? turn : await turn;
    try {
      return await work();
    } finally {
      end();
    }
  }
}
