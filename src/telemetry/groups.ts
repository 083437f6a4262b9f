/** More groups than this share one: every value of an attribute is a time series of its own. */
const GROUPS_MAX = 100;
const OTHER = 'other';

/** The name up to its first colon. */
const untilColon = (name: string): string => {
  const end = name.indexOf(':');
  return end === -1 ? name : name.slice(0, end);
};

/** The groups of each meter provider: its series are those of all Locks that it measures. */
const KNOWN = new WeakMap<object, Set<string>>();

/**
 * The groups of lock names: at most 100 of them and `other`, whichever number of Locks the provider
 * measures. The first names decide.
 */
export class Groups {
  readonly #groupOf: (name: string) => string;
  readonly #known: Set<string>;

  constructor(provider: object, groupOf: (name: string) => string = untilColon) {
    this.#groupOf = groupOf;
    this.#known = KNOWN.get(provider) ?? new Set();
    KNOWN.set(provider, this.#known);
  }

  of(name: string): string {
    const group = this.#groupOf(name);
    if (this.#known.has(group)) return group;
    if (this.#known.size >= GROUPS_MAX) return OTHER;
    this.#known.add(group);
    return group;
  }
}
