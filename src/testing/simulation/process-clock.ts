import type { Clock, Timer } from '../../clock.ts';
import type { VirtualClock } from '../virtual-clock.ts';
import { SeededRandom } from './seeded-random.ts';

/**
 * The clock of one simulated process, and all that makes its code run: its timers and the messages
 * that reach it. While the process is paused, both are kept; when it has crashed, both are dropped.
 */
export class ProcessClock implements Clock {
  readonly #world: VirtualClock;
  readonly #random: SeededRandom;
  #wallOffsetMs = 0;
  #state: 'running' | 'paused' | 'crashed' = 'running';
  #resumesAtMs = 0;
  /** What was due during the pause, in order. */
  #kept: (() => void)[] = [];

  constructor(world: VirtualClock, seed: number) {
    this.#world = world;
    this.#random = new SeededRandom(seed);
  }

  get hasCrashed(): boolean {
    return this.#state === 'crashed';
  }

  monotonicMs(): number {
    return this.#world.monotonicMs();
  }

  wallMs(): number {
    return this.#world.wallMs() + this.#wallOffsetMs;
  }

  random(): number {
    return this.#random.roll();
  }

  startTimer(ms: number, fire: () => void): Timer {
    let isCancelled = false;
    // A kept timer may be cancelled before the process continues.
    const fireUnlessCancelled = (): void => {
      if (!isCancelled) fire();
    };
    const timer = this.#world.startTimer(ms, () => this.run(fireUnlessCancelled));
    return {
      cancel: () => {
        isCancelled = true;
        timer.cancel();
      },
    };
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.startTimer(ms, resolve));
  }

  /** Runs code of this process: now, after the pause, or never. */
  run(code: () => void): void {
    if (this.#state === 'running') code();
    else if (this.#state === 'paused') this.#kept.push(code);
  }

  /** A pause during a pause makes it longer. */
  pause(ms: number): void {
    if (this.#state === 'crashed') return;
    this.#state = 'paused';
    this.#resumesAtMs = Math.max(this.#resumesAtMs, this.monotonicMs() + ms);
    this.#world.startTimer(ms, () => this.#resume());
  }

  crash(): void {
    this.#state = 'crashed';
    this.#kept = [];
  }

  jumpWall(ms: number): void {
    this.#wallOffsetMs += ms;
  }

  #resume(): void {
    if (this.#state !== 'paused' || this.monotonicMs() < this.#resumesAtMs) return;
    this.#state = 'running';
    for (const code of this.#kept.splice(0)) this.run(code);
  }
}
