import type { Clock } from '../../clock.ts';
import { backoff, pause } from '../../util/backoff.ts';
import type { Watching } from '../shared/ahead-watch.ts';
import type { Connection } from './connection.ts';

const RETRY = { min: 250, max: 5_000 };

/** Watches every change of one lock for an observer, across reconnects and sessions. */
export class LockWatch {
  readonly #clock: Clock;
  readonly #connection: Connection;
  readonly #lock: string;
  readonly #onChange: () => void;
  #watching: Watching | null = null;
  #isArming = false;
  #isEnded = false;

  constructor(clock: Clock, connection: Connection, lock: string, onChange: () => void) {
    this.#clock = clock;
    this.#connection = connection;
    this.#lock = lock;
    this.#onChange = onChange;
  }

  async arm(): Promise<void> {
    const session = await this.#connection.ready();
    this.#watching?.cancel();
    this.#watching = session.watches.add('children', this.#lock, () => this.#onChange());
    await this.#watching.armed;
  }

  end(): void {
    this.#isEnded = true;
    this.#watching?.cancel();
  }

  /** Watches again after the watch has ended with the connection, and reports one change. */
  async rearm(): Promise<void> {
    if (this.#isArming) return;
    this.#isArming = true;
    for (let attempt = 0; !this.#isEnded; attempt += 1) {
      try {
        await this.arm();
        break;
      } catch {
        await pause(this.#clock, backoff(this.#clock, attempt, RETRY));
      }
    }
    this.#isArming = false;
    if (this.#isEnded) this.#watching?.cancel();
    else this.#onChange();
  }
}
