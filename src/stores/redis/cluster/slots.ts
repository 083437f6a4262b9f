/** How many slots a Cluster has. */
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

/**
 * The slot of a key. If the key has text between its first `{` and the next `}`, that text is
 * hashed, and otherwise the whole key.
 */
export function slotOf(key: string): number {
  const from = key.indexOf('{');
  const to = from < 0 ? -1 : key.indexOf('}', from + 1);
  return slotOfText(to > from + 1 ? key.slice(from + 1, to) : key);
}

const TAGS = new Map<number, string>();
let tried = 0;

/**
 * A short text of this slot, without braces. A key that begins with the text in braces is in the
 * slot, whatever follows. The name of the lock cannot serve as the tag, because it may hold braces.
 */
export function tagOf(slot: number): string {
  // A random text hits a given slot once in 16,384 times. A hundred thousand texts, made once in a
  // few milliseconds, find nearly all slots.
  for (let tag = TAGS.get(slot); ; tag = TAGS.get(slot)) {
    if (tag !== undefined) return tag;
    const text = (tried++).toString(36);
    const found = slotOfText(text);
    if (!TAGS.has(found)) TAGS.set(found, text);
  }
}

/**
 * The slots of commands. They are remembered: the first key of almost every command is the counter
 * of a slot, so there are few different ones.
 */
export class CommandSlots {
  readonly #known = new Map<string, number>();

  /** By the first key of the command, or by the key `beside`; `null` for a command without keys. */
  of(name: string, args: readonly string[], beside?: string): number | null {
    const key = beside ?? firstKey(name, args);
    if (key === undefined) return null;
    let slot = this.#known.get(key);
    if (slot === undefined) {
      if (this.#known.size === SLOTS) this.#known.clear();
      slot = slotOf(key);
      this.#known.set(key, slot);
    }
    return slot;
  }
}

/** For the commands that the stores send. */
function firstKey(name: string, args: readonly string[]): string | undefined {
  if (name === 'evalsha' || name === 'eval') return args[2];
  return name === 'zrem' || name === 'pexpire' ? args[0] : undefined;
}
