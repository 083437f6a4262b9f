/**
 * Names for primitives that have names of their own. No user's name contains a control character, so none collides; and every store takes one,
 * since it must take any byte it is given or encode it.
 */
const SEPARATOR = '\u001f';
const PREFIX = new RegExp(`^(once|rate)${SEPARATOR}`);

export function namespaced(kind: 'once' | 'rate', name: string): string {
  return kind + SEPARATOR + name;
}

/** The name that the user has given to what stands in the store as this. */
export function givenName(stored: string): string {
  return stored.replace(PREFIX, '');
}
