import type { Mode } from '../../store/store.ts';

/**
 * The keys of a lock stand under `<prefix><name>/`, as those of `etcdctl lock` and of Go's
 * `concurrency.Mutex` do, and their create revisions order the queue. What follows the slash is
 * the mode, so that a queue can be judged without its values:
 *
 * | key                        | claim                                              |
 * |----------------------------|----------------------------------------------------|
 * | `jobs/694d8a0b1c2d3e4f`    | another program's, exclusive: its lease in hex     |
 * | `jobs/x~<id>`              | exclusive                                          |
 * | `jobs/~p2-5~<id>`          | 2 of 5 permits                                     |
 * | `jobs/~s~<id>`             | shared                                             |
 *
 * The order of the bytes matters: every claim that blocks a reader sorts before `~s`. Names and ids
 * are escaped, so a key with another slash belongs to another program's lock of a longer name, and
 * is ignored.
 *
 * `<prefix><0x01><name>` is put for a moment when a note changes, so that waiters can watch for it.
 * No user's name contains a control character.
 */
export interface ClaimKey {
  readonly id: string;
  readonly mode: Mode;
  readonly ours: boolean;
}

const escaped = (text: string): string => text.replace(/[%/]/g, (char) => (char === '%' ? '%25' : '%2F'));
const unescaped = (text: string): string => text.replace(/%2F|%25/g, (code) => (code === '%2F' ? '/' : '%'));

export class Keys {
  readonly prefix: string;

  constructor(prefix: string) {
    this.prefix = prefix;
  }

  /** The range of a lock's keys. */
  lock(name: string): LockKeys {
    return new LockKeys(this.prefix, escaped(name));
  }

  /** The range of all locks whose names begin with `namePrefix`. */
  all(namePrefix: string): { from: Buffer; end: Buffer } {
    const from = Buffer.from(this.prefix + escaped(namePrefix));
    return { from, end: endOf(from) };
  }

  /** The name of the lock that a key belongs to; `null` when the key belongs to none. */
  nameIn(key: Buffer): string | null {
    const [name, suffix, ...more] = key.toString().slice(this.prefix.length).split('/');
    if (name === undefined || name === '' || suffix === undefined || more.length > 0) return null;
    return /^(?:x~|~s~|~p\d|[0-9a-f]{1,16}$)/.test(suffix) ? unescaped(name) : null;
  }
}

export class LockKeys {
  /** What the keys begin with, as text. */
  readonly path: string;
  readonly from: Buffer;
  /** The byte after `/` is `0`. */
  readonly end: Buffer;
  /** The key that is put when a note of this lock has changed. */
  readonly note: Buffer;

  constructor(prefix: string, name: string) {
    this.path = `${prefix}${name}/`;
    this.from = Buffer.from(this.path);
    this.end = Buffer.from(`${prefix}${name}0`);
    this.note = Buffer.from(`${prefix}\u0001${name}`);
  }

  /** The end of the key range whose claims block a claim of this mode. */
  blockingEnd(mode: Mode): Buffer {
    return mode.kind === 'shared' ? Buffer.from(`${this.path}~s`) : this.end;
  }

  claim(id: string, mode: Mode): Buffer {
    return Buffer.from(this.path + kindOf(mode) + escaped(id));
  }

  /** The claim that a key of this lock stands for; `null` for a key of another lock. */
  parse(key: Buffer, createRevision: string): ClaimKey | null {
    const suffix = key.subarray(this.from.length).toString();
    if (suffix.includes('/')) return null;
    const [, kind, count, of, id] = /^(x~|~s~|~p(\d+)-(\d+)~)(.*)$/s.exec(suffix) ?? [];
    // Another program's session may take the lock again under the same key. With the revision, the
    // id names one claim only.
    if (kind === undefined || id === undefined)
      return { id: `${suffix}@${createRevision}`, mode: { kind: 'exclusive' }, ours: false };
    return { id: unescaped(id), mode: modeOf(kind, Number(count), Number(of)), ours: true };
  }
}

function kindOf(mode: Mode): string {
  if (mode.kind === 'permits') return `~p${mode.count}-${mode.of}~`;
  return mode.kind === 'shared' ? '~s~' : 'x~';
}

function modeOf(kind: string, count: number, of: number): Mode {
  if (kind === 'x~') return { kind: 'exclusive' };
  return kind === '~s~' ? { kind: 'shared' } : { kind: 'permits', count, of };
}

/**
 * The first key after all keys with this prefix: text has no byte `0xff`. A single zero byte means
 * the end of all keys.
 */
function endOf(prefix: Buffer): Buffer {
  const last = prefix.at(-1);
  return last === undefined ? Buffer.from([0]) : Buffer.from([...prefix.subarray(0, -1), last + 1]);
}
