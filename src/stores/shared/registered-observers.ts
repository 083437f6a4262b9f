import type { Clock, Timer } from '../../clock.ts';
import { CallbackIndex } from './callback-index.ts';

/** How long a registration at the server lasts, and how often it is repeated. */
export const OBSERVED_MS = 60_000;
const AGAIN_MS = 20_000;

/** `mayGrant`: the change may allow a waiting claim to be granted. */
export type OnChange = (mayGrant: boolean) => void;

/**
 * The observers of this process, by lock. They are registered at the server, so that the server
 * sends no messages about a lock without observers.
 */
export class RegisteredObservers {
  readonly #clock: Clock;
  /** Asks the server to report changes of this lock for `forMs`; 0 ends the reports. */
  readonly #ask: (name: string, forMs: number) => Promise<void>;
  readonly #callbacks = new CallbackIndex<[mayGrant: boolean]>();
  /** By lock: when it is registered again. */
  readonly #timers = new Map<string, Timer>();

  constructor(clock: Clock, ask: (name: string, forMs: number) => Promise<void>) {
    this.#clock = clock;
    this.#ask = ask;
  }

  get isEmpty(): boolean {
    return this.#callbacks.isEmpty;
  }

  add(name: string, onChange: OnChange): () => void {
    const remove = this.#callbacks.add(name, onChange);
    return () => {
      if (!remove()) return;
      this.#stopTimer(name);
      void this.#ask(name, 0).catch(() => {});
    };
  }

  /** Never rejects: messages are hints, and observers also poll. */
  async register(name: string): Promise<void> {
    if (!this.#callbacks.has(name)) return;
    this.#stopTimer(name);
    this.#timers.set(
      name,
      this.#clock.startTimer(AGAIN_MS, () => void this.register(name)),
    );
    await this.#ask(name, OBSERVED_MS).catch(() => {});
  }

  tell(name: string, mayGrant = true): void {
    this.#callbacks.call(name, mayGrant);
  }

  tellAll(): void {
    this.#callbacks.callAll(true);
  }

  /** Messages may have been missed. */
  onGap(): void {
    for (const name of this.#callbacks.keys) {
      // An observer that was only just added is about to be registered.
      if (this.#timers.has(name)) void this.register(name);
      this.tell(name);
    }
  }

  clear(): void {
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
    this.#callbacks.clear();
  }

  #stopTimer(name: string): void {
    this.#timers.get(name)?.cancel();
    this.#timers.delete(name);
  }
}
