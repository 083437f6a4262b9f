import { StoreError } from '../../errors.ts';

/** So many that the servers have enough to do, and so few that what is urgent waits for a fraction of a second. */
const AT_ONCE_MAX = 256;

/**
 * Requests that can wait: entering lines, reading them, watching. All requests of a session are answered in order, so ten thousand of these at once would keep renewals waiting for seconds, and cost the holds.
 */
export class Patience {
  readonly #isConnected: () => boolean;
  readonly #queue: (() => void)[] = [];
  #underWay = 0;

  constructor(isConnected: () => boolean) {
    this.#isConnected = isConnected;
  }

  /** In order. Rejects with `applied: 'no'` when the connection is gone by the time that it is this one's turn. */
  run<T>(send: () => Promise<T>): Promise<T> {
    if (this.#underWay < AT_ONCE_MAX && this.#queue.length === 0) return this.#send(send);
    return new Promise<T>((resolve, reject) => {
      this.#queue.push(() => {
        if (this.#isConnected()) this.#send(send).then(resolve, reject);
        else reject(new StoreError('The connection was lost before this was sent', { applied: 'no' }));
      });
    });
  }

  async #send<T>(send: () => Promise<T>): Promise<T> {
    this.#underWay += 1;
    try {
      return await send();
    } finally {
      this.#underWay -= 1;
      this.#next();
    }
  }

  #next(): void {
    // One that is not sent at all makes room for the one behind it.
    while (this.#underWay < AT_ONCE_MAX) {
      const next = this.#queue.shift();
      if (next === undefined) return;
      next();
    }
  }
}
