import type { Clock } from '../../clock.ts';
import { Turns } from '../../util/turns.ts';
import { CallbackIndex } from './callback-index.ts';
import { KeyedTimers } from './keyed-timers.ts';
import { between } from './retry-after.ts';

/** How long a registration at the server lasts, and how often it is repeated. */
const OBSERVED_MS = 60_000;
const AGAIN_MS = { min: 15_000, max: 20_000 };
/** How often observers are called when the server cannot report changes. */
const POLL_MS = 400;

/** `mayGrant`: the change may allow a waiting claim to be granted. */
export type OnChange = (mayGrant: boolean) => void;

/**
 * The observers of this process, by lock. They are registered at the server, so that the server
 * sends no messages about a lock without observers.
 */
export class RegisteredObservers {
  /**
   * Asks the server to report changes of this lock for `forMs`; 0 ends the reports. False: it cannot.
   */
  readonly #ask: (name: string, forMs: number) => Promise<boolean>;
  readonly #clock: Clock;
  readonly #callbacks = new CallbackIndex<[mayGrant: boolean]>();
  /** By lock: when it is registered again. */
  readonly #again: KeyedTimers;
  /** The end of the reports of a lock must not overtake a registration, nor the reverse. */
  readonly #turns = new Turns();

  constructor(clock: Clock, ask: (name: string, forMs: number) => Promise<boolean>) {
    this.#clock = clock;
    this.#again = new KeyedTimers(clock);
    this.#ask = ask;
  }

  get isEmpty(): boolean {
    return this.#callbacks.isEmpty;
  }

  add(name: string, onChange: OnChange): () => void {
    const remove = this.#callbacks.add(name, onChange);
    return () => {
      if (!remove()) return;
      this.#again.delete(name);
      this.#turns.run(name, () => this.#ask(name, 0)).catch(() => {});
    };
  }

  /** Never rejects: messages are hints, and observers also poll. */
  async register(name: string): Promise<void> {
    const isReported = await this.#turns.run(name, async () => {
      if (!this.#callbacks.has(name)) return true;
      this.#again.set(name, between(this.#clock, AGAIN_MS), () => void this.register(name));
      return await this.#ask(name, OBSERVED_MS).catch(() => true);
    });
    if (isReported || !this.#callbacks.has(name)) return;
    this.#again.set(name, POLL_MS, () => {
      void this.register(name);
      this.tell(name);
    });
  }

  tell(name: string, mayGrant = true): void {
    this.#callbacks.call(name, mayGrant);
  }

  /** Messages may have been missed. */
  onGap(): void {
    for (const name of this.#callbacks.keys) {
      // An observer that was only just added is about to be registered. After the registration once
      // more: a change before it may have been reported to the connection that has ended.
      if (this.#again.has(name)) void this.register(name).then(() => this.tell(name));
      this.tell(name);
    }
  }

  clear(): void {
    this.#again.clear();
    this.#callbacks.clear();
  }
}
