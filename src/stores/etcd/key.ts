import type { Mode } from '../../store/store.ts';

/**
 * The keys of a lock stand under `<prefix><name>/`, as those of `etcdctl lock` and of Go's `concurrency.Mutex` do, and their create revisions order the line. What
 * follows the slash tells the mode, so that a line can be judged without its values:
 *
 * | key                        | claim                                              |
 * |----------------------------|----------------------------------------------------|
 * | `jobs/694d8a0b1c2d3e4f`    | another program's, exclusive: its lease in hex     |
 * | `jobs/x~<id>`              | exclusive                                          |
 * | `jobs/~p2-5~<id>`          | 2 of 5 permits                                     |
 * | `jobs/~s~<id>`             | shared                                             |
 *
 * The order of the bytes matters: everything that a reader waits for sorts before `~s`. Names and ids are escaped, so a key with another slash belongs to another
 * program's lock of a longer name and is not seen.
 */
export interface ClaimKey {
  readonly id: string;
  readonly mode: Mode;
  readonly ours: boolean;
}

const escaped = (text: string): string => text.replace(/[%/]/g, (char) => (char === '%' ? '%25' : '%2F'));
const unescaped = (text: string): string => text.replace(/%2F|%25/g, (code) => (code === '%2F' ? '/' : '%'));

export class Keys {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** A key that nobody writes, for reading nothing. */
  get nothing(): Buffer {
    return Buffer.from(`${this.#prefix}.`);
  }

  /** The range of a lock's keys. */
  lock(name: string): LockKeys {
    return new LockKeys(`${this.#prefix}${escaped(name)}/`);
  }

  /** The range of all locks whose name begins so. */
  all(namePrefix: string): { from: Buffer; end: Buffer } {
    const from = Buffer.from(this.#prefix + escaped(namePrefix));
    return { from, end: endOf(from) };
  }

  /** The lock that a key belongs to; `null` when it is none of a lock. */
  nameIn(key: Buffer): string | null {
    const [name, suffix, ...more] = key.toString().slice(this.#prefix.length).split('/');
    if (name === undefined || name === '' || suffix === undefined || more.length > 0) return null;
    return /^(?:x~|~s~|~p\d|[0-9a-f]{1,16}$)/.test(suffix) ? unescaped(name) : null;
  }
}

export class LockKeys {
  readonly #path: string;
  readonly from: Buffer;
  /** `/` is followed by `0`. */
  readonly end: Buffer;

  constructor(path: string) {
    this.#path = path;
    this.from = Buffer.from(path);
    this.end = Buffer.from(`${path.slice(0, -1)}0`);
  }

  /** Where that part of the range ends which a claim of this mode cannot be granted beside. */
  blockingEnd(mode: Mode): Buffer {
    return mode.kind === 'shared' ? Buffer.from(`${this.#path}~s`) : this.end;
  }

  claim(id: string, mode: Mode): Buffer {
    return Buffer.from(this.#path + kindOf(mode) + escaped(id));
  }

  /** What a key of this lock says; `null` for another lock's. */
  parse(key: Buffer, createRevision: string): ClaimKey | null {
    const suffix = key.subarray(this.from.length).toString();
    if (suffix.includes('/')) return null;
    const match = /^(?:(x)~|~(s)~|~p(\d+)-(\d+)~)(.*)$/s.exec(suffix);
    // The same session may take the same lock again under the same key: with the revision, the id names one claim only.
    if (match === null)
      return { id: `${suffix}@${createRevision}`, mode: { kind: 'exclusive' }, ours: false };
    const [, exclusive, shared, count, of, id = ''] = match;
    const mode: Mode =
      exclusive !== undefined
        ? { kind: 'exclusive' }
        : shared !== undefined
          ? { kind: 'shared' }
          : { kind: 'permits', count: Number(count), of: Number(of) };
    return { id: unescaped(id), mode, ours: true };
  }
}

function kindOf(mode: Mode): string {
  if (mode.kind === 'permits') return `~p${mode.count}-${mode.of}~`;
  return mode.kind === 'shared' ? '~s~' : 'x~';
}

/** The first key after all that begin so; a single zero byte means the end of all keys. */
function endOf(prefix: Buffer): Buffer {
  const end = Buffer.from(prefix);
  for (let at = end.length - 1; at >= 0; at -= 1) {
    const byte = end[at] ?? 0;
    if (byte < 0xff) {
      end[at] = byte + 1;
      return end.subarray(0, at + 1);
    }
  }
  return Buffer.from([0]);
}
