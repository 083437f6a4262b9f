/** Random choices that a seed repeats exactly (mulberry32). */
export class SeededRandom {
  #state: number;

  constructor(seed: number) {
    this.#state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) >>> 0;
  }

  /** From 0 up to, but not including, 1. */
  roll(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  below(n: number): number {
    return Math.floor(this.roll() * n);
  }

  chance(share: number): boolean {
    return this.roll() < share;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T;
  }
}

/** A seed of its own for one part of what another seed decides (FNV-1a). */
export function seedOf(seed: number, part: string): number {
  let hash = 0x811c9dc5 ^ seed;
  for (let index = 0; index < part.length; index += 1) {
    hash = Math.imul(hash ^ part.charCodeAt(index), 0x01000193);
  }
  return hash >>> 0;
}
