/**
 * Names for primitives that have names of their own. No user's name contains a control character, so none collides; and every store takes one,
 * since it must take any byte it is given or encode it.
 */
const SEPARATOR = '\u001f';

export function namespaced(kind: 'once' | 'rate', name: string): string {
  return `${kind}${SEPARATOR}${name}`;
}
