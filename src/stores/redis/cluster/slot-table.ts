import { SLOTS } from './slots.ts';

/** Which node serves which slot, as the nodes last reported it. */
export class SlotTable {
  readonly #addresses = new Array<string | undefined>(SLOTS).fill(undefined);
  isLoaded = false;

  addressOf(slot: number): string | undefined {
    return this.#addresses[slot];
  }

  /** The first slot that this node serves. */
  slotOf(address: string): number {
    return this.#addresses.indexOf(address);
  }

  /** Returns whether the table has changed. */
  move(slot: number, address: string): boolean {
    if (this.#addresses[slot] === address) return false;
    this.#addresses[slot] = address;
    return true;
  }

  masters(): string[] {
    return [...new Set(this.#addresses.filter((address) => address !== undefined))];
  }

  /** Reads a reply to CLUSTER SLOTS. Returns whether the table has changed. */
  load(reply: unknown): boolean {
    let hasChanged = false;
    for (const [from, to, master] of reply as Array<[number, number, [string | null, number]]>) {
      const [host, port] = master;
      // The node does not know the address of this master.
      if (host === null || host === '' || host === '?') continue;
      for (let slot = Number(from); slot <= Number(to); slot += 1) {
        if (this.move(slot, `${host}:${port}`)) hasChanged = true;
      }
    }
    this.isLoaded = true;
    return hasChanged;
  }
}
