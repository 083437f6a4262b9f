import { checkName } from '../checks.ts';

/**
 * Names for primitives that have names of their own. No user's name contains a control character, so none collides; and every store takes one,
 * since it must take any byte it is given or encode it.
 */
const SEPARATOR = '\u001f';
const KINDS = ['once', 'rate'] as const;

/** The name of a lock as it stands in the store, for people who look: a user's name, or one of a kind with names of its own. */
export function checkStoredName(name: string): string {
  const own = typeof name === 'string' && KINDS.find((kind) => name.startsWith(kind + SEPARATOR));
  checkName(own ? name.slice(own.length + SEPARATOR.length) : name);
  return name;
}

export function namespaced(kind: (typeof KINDS)[number], name: string): string {
  return `${kind}${SEPARATOR}${name}`;
}
