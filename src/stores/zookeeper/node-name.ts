import type { Mode } from '../../store/store.ts';

/**
 * The claims of a lock are children of `<root>/<name>`, as those of kazoo's `Lock`, `ReadLock` and `WriteLock` are, and the number that ZooKeeper appends orders the line:
 *
 * | child                                          | claim                                    |
 * |------------------------------------------------|------------------------------------------|
 * | `9f86d081884c…__lock__0000000007`              | another program's, exclusive             |
 * | `9f86d081884c…__rlock__0000000008`             | another program's, shared                |
 * | `<id>~<session>__lock__0000000009`             | exclusive                                |
 * | `<id>~<session>__rlock__0000000010`            | shared                                   |
 * | `<id>~<session>~2-5__permits__0000000011`      | 2 of 5 permits                           |
 *
 * With the id, a claim whose answer was lost is found again; with the session, what an earlier session has left is told from what this one has made.
 */
export interface NodeName {
  readonly node: string;
  readonly id: string;
  /** `null` for another program's. */
  readonly session: string | null;
  readonly mode: Mode;
  readonly place: number;
}

/** A place is ten characters wide, or eleven: beyond 2^31 it starts again below zero, and the sign is one of the ten. */
const OURS = /^(.+)~([0-9a-f]{1,16})(?:__(lock|rlock)__|~(\d+)-(\d+)__permits__)(-\d{9,10}|\d{10})$/s;
const FOREIGN = /__(r?)lock__(-\d{9,10}|\d{10})$/;

/** What ZooKeeper refuses in a name, and what is ours to tell names apart. Everything else stays as it is, so that other programs' names are ours. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: ZooKeeper refuses them.
const REFUSED = /[\u0000-\u001f\u007f-\u009f\ufff0-\uffff%/]|[\ud800-\udbff][\udc00-\udfff]|[\ud800-\uf8ff]/g;

const percent = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');

export function encodeName(name: string): string {
  if (name === '.' || name === '..') return percent(name);
  return name.replace(REFUSED, percent);
}

/** `null`: not a name that we have encoded. */
export function decodeName(text: string): string | null {
  try {
    return decodeURIComponent(text.replace(/%(?![0-9A-F]{2})/g, '%25'));
  } catch {
    return null;
  }
}

/** What the name of a claim's node begins with; ZooKeeper appends its place. */
export function nodePrefix(id: string, session: string, mode: Mode): string {
  const own = `${encodeName(id)}~${session}`;
  if (mode.kind === 'permits') return `${own}~${mode.count}-${mode.of}__permits__`;
  return mode.kind === 'shared' ? `${own}__rlock__` : `${own}__lock__`;
}

/** `null`: nobody's claim. */
export function parseNode(node: string): NodeName | null {
  const match = OURS.exec(node);
  if (match !== null) {
    const [, id = '', session = '', kind, count, of, place] = match;
    const mode: Mode =
      kind === undefined
        ? { kind: 'permits', count: Number(count), of: Number(of) }
        : { kind: kind === 'lock' ? 'exclusive' : 'shared' };
    return { node, id: decodeName(id) ?? id, session, mode, place: Number(place) };
  }
  const foreign = FOREIGN.exec(node);
  if (foreign === null) return null;
  const [, reader, place] = foreign;
  return {
    node,
    id: node,
    session: null,
    mode: { kind: reader === 'r' ? 'shared' : 'exclusive' },
    place: Number(place),
  };
}
