import { memoryStore, type Store } from '../../src/index.ts';
import { type VirtualClock, virtualClock } from '../../src/testing/index.ts';
import { SeededRandom, seedOf } from '../../src/testing/simulation/seeded-random.ts';
import { ManualNetwork } from './manual-network.ts';

/** A memory store behind a network whose messages the run delivers, loses and delays, in virtual time. */
export class SeededRun {
  readonly trace: string[] = [];
  /** Each step has its own, so that a step which is left out changes no other. */
  protected random: SeededRandom;
  protected readonly clock: VirtualClock;
  protected readonly store: Store;
  protected readonly network: ManualNetwork;
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
    this.random = new SeededRandom(seed);
    this.clock = virtualClock({ seed });
    this.store = memoryStore({ clock: this.clock });
    this.network = new ManualNetwork(this.store);
  }

  protected beginStep(step: string): void {
    this.random = new SeededRandom(seedOf(this.#seed, step));
  }
}
