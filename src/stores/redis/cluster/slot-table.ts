import { SLOTS } from './slots.ts';

/** Which node serves which slot, as far as anybody here has been told. */
export class SlotTable {
  readonly #addresses = new Array<string | undefined>(SLOTS).fill(undefined);
  #isLoaded = false;

  get isLoaded(): boolean {
    return this.#isLoaded;
  }

  addressOf(slot: number): string | undefined {
    return this.#addresses[slot];
  }

  /** True when this is news. */
  move(slot: number, address: string): boolean {
    if (this.#addresses[slot] === address) return false;
    this.#addresses[slot] = address;
    return true;
  }

  masters(): string[] {
    return [...new Set(this.#addresses.filter((address) => address !== undefined))];
  }

  /** Takes in an answer to CLUSTER SLOTS. True when something has changed. */
  load(reply: unknown): boolean {
    let hasChanged = false;
    for (const [from, to, master] of reply as Array<[number, number, [string | null, number]]>) {
      const [host, port] = master;
      // A node that does not know its own address says so: then nothing is known of these.
      if (host === null || host === '' || host === '?') continue;
      for (let slot = Number(from); slot <= Number(to); slot += 1) {
        if (this.move(slot, `${host}:${port}`)) hasChanged = true;
      }
    }
    this.#isLoaded = true;
    return hasChanged;
  }
}
