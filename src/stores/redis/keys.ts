/** The keys of one lock, and those of the whole store. */
export interface LockKeys {
  /** What every other program looks at: prefix and name, nothing else. */
  readonly plain: string;
  readonly line: string;
  readonly info: string;
}

/** No name may hold a control character, so no name can meet a key of ours, whatever the prefix. */
const OWN = '\u0001';

export class Keys {
  readonly prefix: string;
  /** The counter of fences. The scripts know from it where channels begin. */
  readonly counter: string;
  readonly channelBase: string;
  readonly #line: string;
  readonly #info: string;
  /** Whoever takes a lock gives the same one back: its keys are put together once. */
  #last: LockKeys & { readonly name: string };

  /**
   * `tag`: what brings a key into the slot of these locks, in a Cluster. The counter's last letters also tell the scripts which kind of channels to use, those of
   * one server or those of a slot.
   */
  constructor(prefix: string, tag?: string) {
    const base = tag === undefined ? `${prefix}${OWN}` : `{${tag}}${prefix}${OWN}`;
    this.prefix = prefix;
    this.counter = `${base}${tag === undefined ? 'fence' : 'shard'}`;
    this.channelBase = `${base}wake:`;
    this.#line = `${base}line:`;
    this.#info = `${base}info:`;
    this.#last = { name: '', ...this.of('') };
  }

  /** Patterns for SCAN that find every lock of a Cluster whose name begins so. */
  static clusterPatterns(prefix: string, namePrefix: string): readonly string[] {
    const line = escapeGlob(`}${prefix}${OWN}line:${namePrefix}`);
    return [`${escapeGlob(prefix + namePrefix)}*`, `{*${line}*`];
  }

  /** The lock's name, from a key of any slot; `null` for a key that is no lock's. */
  static clusterNameIn(prefix: string, key: string): string | null {
    const own = `}${prefix}${OWN}line:`;
    const at = key.startsWith('{') ? key.indexOf(own) : -1;
    if (at > 0 && at === key.indexOf('}')) return key.slice(at + own.length);
    if (!key.startsWith(prefix)) return null;
    const name = key.slice(prefix.length);
    return name === '' || name.includes(OWN) ? null : name;
  }

  of(name: string): LockKeys {
    return { plain: this.prefix + name, line: this.#line + name, info: this.#info + name };
  }

  /** Adds the keys of a lock to a command, in the order in which the scripts expect them. */
  push(command: string[], name: string): void {
    if (this.#last.name !== name) this.#last = { name, ...this.of(name) };
    const { plain, line, info } = this.#last;
    command.push(plain, line, info);
  }

  line(name: string): string {
    return this.#line + name;
  }

  /** The lock's name, from a key that the server gave; `null` for a key that is no lock's. */
  nameIn(key: string): string | null {
    if (key.startsWith(this.#line)) return key.slice(this.#line.length);
    if (!key.startsWith(this.prefix)) return null;
    const name = key.slice(this.prefix.length);
    return name === '' || name.includes(OWN) ? null : name;
  }

  /** Patterns for SCAN that find every lock whose name begins so. */
  patterns(clientPrefix: string, namePrefix: string): readonly string[] {
    return [this.prefix, this.#line].map((start) => `${escapeGlob(clientPrefix + start + namePrefix)}*`);
  }
}

function escapeGlob(text: string): string {
  return text.replace(/[\\*?[\]^-]/g, '\\$&');
}
