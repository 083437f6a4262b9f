import type { Mode } from '../../store/store.ts';

/**
 * The claims of a lock are children of `<root>/<name>`, as with kazoo's `Lock`, `ReadLock` and
 * `WriteLock`. The number that ZooKeeper appends is the queue position:
 *
 * | child                                          | claim                                    |
 * |------------------------------------------------|------------------------------------------|
 * | `9f86d081884c…__lock__0000000007`              | another program's, exclusive             |
 * | `9f86d081884c…__rlock__0000000008`             | another program's, shared                |
 * | `<id>~<session>__lock__0000000009`             | exclusive                                |
 * | `<id>~<session>__rlock__0000000010`            | shared                                   |
 * | `<id>~<session>~2-5__permits__0000000011`      | 2 of 5 permits                           |
 *
 * A claim whose reply was lost is found by its id. The session tells its node from one of an
 * earlier session.
 */
export interface NodeName {
  readonly node: string;
  readonly id: string;
  /** `null` for another program's claim. */
  readonly session: string | null;
  readonly mode: Mode;
  readonly position: number;
}

/** A position has ten digits. Beyond 2^31 it wraps around, and has a minus sign. */
const OURS = /^(.+)~([0-9a-f]{1,16})(?:__(lock|rlock)__|~(\d+)-(\d+)__permits__)(-\d{9,10}|\d{10})$/s;
const FOREIGN = /__(r?)lock__(-\d{9,10}|\d{10})$/;

/** Characters that ZooKeeper refuses in a name, and the escape character. Others stay as they are. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: ZooKeeper refuses them.
const REFUSED = /[\u0000-\u001f\u007f-\u009f\ufff0-\uffff%/]|[\ud800-\udbff][\udc00-\udfff]|[\ud800-\uf8ff]/g;

const percent = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');

export function encodeName(name: string): string {
  if (name === '.' || name === '..') return percent(name);
  return name.replace(REFUSED, percent);
}

/** `null`: not a name that `encodeName` returns. */
export function decodeName(text: string): string | null {
  try {
    return decodeURIComponent(text.replace(/%(?![0-9A-F]{2})/g, '%25'));
  } catch {
    return null;
  }
}

/** The name of a claim's node without the queue position, which ZooKeeper appends. */
export function nodePrefix(id: string, session: string, mode: Mode): string {
  const own = `${encodeName(id)}~${session}`;
  if (mode.kind === 'permits') return `${own}~${mode.count}-${mode.of}__permits__`;
  return mode.kind === 'shared' ? `${own}__rlock__` : `${own}__lock__`;
}

/** `null`: the node is not a claim. */
export function parseNode(node: string): NodeName | null {
  const match = OURS.exec(node);
  if (match !== null) {
    const [, id = '', session = '', kind, count, of, position] = match;
    const mode: Mode =
      kind === undefined
        ? { kind: 'permits', count: Number(count), of: Number(of) }
        : { kind: kind === 'lock' ? 'exclusive' : 'shared' };
    return { node, id: decodeName(id) ?? id, session, mode, position: Number(position) };
  }
  const foreign = FOREIGN.exec(node);
  if (foreign === null) return null;
  const [, reader, position] = foreign;
  const mode: Mode = { kind: reader === 'r' ? 'shared' : 'exclusive' };
  return { node, id: node, session: null, mode, position: Number(position) };
}
