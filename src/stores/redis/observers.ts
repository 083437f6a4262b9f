import type { Clock, Timer } from '../../clock.ts';
import { observeScript } from '../../generated/redis-scripts.ts';
import { runAlone, sendAlone } from './call.ts';
import type { Gate } from './gate.ts';
import type { Keys } from './keys.ts';
import type { Listener } from './listener.ts';

/** For how long the server tells us of a lock unless we ask again, and how often we do. */
const OBSERVED_MS = 60_000;
const AGAIN_MS = 20_000;

/** `mayFree`: somebody may go on because of what has happened. */
export type OnChange = (mayFree: boolean) => void;

interface Observed {
  readonly wakes: Set<OnChange>;
  timer: Timer | null;
}

/**
 * Who wants to hear of every change of a lock. The lock's line says so while somebody does, so a lock that nobody observes publishes nothing.
 */
export class Observers {
  readonly #gate: Gate;
  readonly #keys: Keys;
  readonly #clock: Clock;
  readonly #listener: Listener;
  readonly #observed = new Map<string, Observed>();

  constructor(gate: Gate, keys: Keys, clock: Clock, listener: Listener) {
    this.#gate = gate;
    this.#keys = keys;
    this.#clock = clock;
    this.#listener = listener;
  }

  get isEmpty(): boolean {
    return this.#observed.size === 0;
  }

  add(name: string, wake: OnChange): () => void {
    const observed = this.#observed.get(name) ?? { wakes: new Set(), timer: null };
    this.#observed.set(name, observed);
    // A fresh function: the same callback may watch twice.
    const own: OnChange = (mayFree) => wake(mayFree);
    observed.wakes.add(own);
    return () => {
      if (observed.wakes.delete(own) && observed.wakes.size === 0) this.#end(name, observed);
    };
  }

  /** Asks the server to tell us. Never rejects: this is a hint, and whoever observes asks now and then anyway. */
  async register(name: string): Promise<void> {
    const observed = this.#observed.get(name);
    if (observed === undefined) return;
    observed.timer?.cancel();
    observed.timer = this.#clock.startTimer(AGAIN_MS, () => void this.register(name));
    const args = [this.#listener.channel, `${OBSERVED_MS}`];
    await runAlone(this.#gate, observeScript, [this.#keys.line(name)], args, undefined).catch(() => {});
  }

  tell(name: string, mayFree: boolean): void {
    for (const wake of this.#observed.get(name)?.wakes ?? []) wake(mayFree);
  }

  /** The server may have found nobody listening and have struck us off. */
  onBreak(): void {
    for (const name of [...this.#observed.keys()]) {
      if (this.#listener.isUp) void this.register(name);
      this.tell(name, true);
    }
  }

  clear(): void {
    for (const observed of this.#observed.values()) observed.timer?.cancel();
    this.#observed.clear();
  }

  #end(name: string, observed: Observed): void {
    observed.timer?.cancel();
    if (this.#observed.get(name) !== observed) return;
    this.#observed.delete(name);
    void sendAlone(this.#gate, 'zrem', [this.#keys.line(name), this.#listener.channel], undefined).catch(
      () => {},
    );
  }
}
