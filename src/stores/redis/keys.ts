import { InvalidArgumentError } from '../../errors.ts';

/** The keys of one lock. */
export interface LockKeys {
  /** The key that other programs use for the same lock: prefix and name, nothing else. */
  readonly plain: string;
  readonly queue: string;
  readonly info: string;
}

/** A name holds no control character. So no lock's plain key equals a helper key, with any prefix. */
const OWN = '\u0001';

/** The keys of all locks with one prefix, on one server or in one slot of a Cluster. */
export class Keys {
  readonly prefix: string;
  /** The counter of fences. The scripts derive the names of channels from it. */
  readonly counter: string;
  readonly channelBase: string;
  /** The channel on which evictions are announced to every process that is subscribed. */
  readonly evictions: string;
  /** The command that sends a message to such a channel. */
  readonly publish: 'PUBLISH' | 'SPUBLISH';
  readonly #queue: string;
  readonly #info: string;

  /**
   * `tag`: in a Cluster, the hash tag of the slot of these locks. The last letters of the counter's
   * key tell the scripts which channels to use: those of one server, or the sharded ones of a slot.
   */
  constructor(prefix: string, tag?: string) {
    const base = tag === undefined ? `${prefix}${OWN}` : `{${tag}}${prefix}${OWN}`;
    this.prefix = prefix;
    this.counter = `${base}${tag === undefined ? 'fence' : 'shard'}`;
    this.channelBase = `${base}wake:`;
    this.evictions = `${base}evicted`;
    this.publish = tag === undefined ? 'PUBLISH' : 'SPUBLISH';
    this.#queue = `${base}queue:`;
    this.#info = `${base}info:`;
  }

  of(name: string): LockKeys {
    return { plain: this.prefix + name, queue: this.#queue + name, info: this.#info + name };
  }

  /** Adds the keys of a lock to a command, in the order in which the scripts expect them. */
  push(command: string[], name: string): void {
    command.push(this.prefix + name, this.#queue + name, this.#info + name);
  }

  /** The name of the lock that a key belongs to; `null` for any other key. */
  nameIn(key: string): string | null {
    if (key.startsWith(this.#queue)) return key.slice(this.#queue.length);
    if (!key.startsWith(this.prefix)) return null;
    const name = key.slice(this.prefix.length);
    return name === '' || name.includes(OWN) ? null : name;
  }

  /** Patterns for SCAN that find every lock whose name begins with `namePrefix`. */
  patterns(clientPrefix: string, namePrefix: string): readonly [plain: string, queue: string] {
    const pattern = (start: string): string => `${escapeGlob(clientPrefix + start + namePrefix)}*`;
    return [pattern(this.prefix), pattern(this.#queue)];
  }
}

function escapeGlob(text: string): string {
  return text.replace(/[\\*?[\]^-]/g, '\\$&');
}

/** Throws `InvalidArgumentError` for what cannot stand before every key. */
export function checkPrefix(prefix: string | undefined): void {
  if (prefix !== undefined && (typeof prefix !== 'string' || Buffer.byteLength(prefix) > 256)) {
    throw new InvalidArgumentError('prefix', 'must be a string of at most 256 bytes');
  }
}
