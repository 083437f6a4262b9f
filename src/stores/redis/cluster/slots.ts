export const SLOTS = 16_384;

/** CRC-16/XMODEM, by which a Cluster assigns keys to slots. */
const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc & 0xffff;
});

function step(crc: number, byte: number): number {
  return ((crc << 8) & 0xffff) ^ (TABLE[((crc >> 8) ^ byte) & 0xff] ?? 0);
}

/** ASCII text needs no buffer. */
function slotOfText(text: string): number {
  let crc = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code > 0x7f) return Buffer.from(text).reduce(step, 0) % SLOTS;
    crc = step(crc, code);
  }
  return crc % SLOTS;
}

/** By the text between the first `{` and the next `}` if there is any, else by the whole key. */
export function slotOf(key: string): number {
  const from = key.indexOf('{');
  const to = from < 0 ? -1 : key.indexOf('}', from + 1);
  return slotOfText(to > from + 1 ? key.slice(from + 1, to) : key);
}

const TAGS = new Map<number, string>();
let tried = 0;

/**
 * A short text whose slot this is. A key that begins with the text in braces is in the slot,
 * whatever follows. The name of the lock cannot serve as the tag, because it may hold braces.
 */
export function tagOf(slot: number): string {
  // A hundred thousand texts, made once in a few milliseconds, find nearly all slots.
  for (let tag = TAGS.get(slot); ; tag = TAGS.get(slot)) {
    if (tag !== undefined) return tag;
    const text = (tried++).toString(36);
    const found = slotOfText(text);
    if (!TAGS.has(found)) TAGS.set(found, text);
  }
}

/** Of a command that the stores send: by its first key or channel, or by the key `beside`. */
export function slotOfCommand(name: string, args: readonly string[], beside?: string): number {
  const first = name === 'evalsha' || name === 'eval' ? args[2] : args[0];
  return slotOf(beside ?? first ?? '');
}

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
