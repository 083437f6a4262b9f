/** More groups than this share one: every value of an attribute is a time series of its own. */
const GROUPS_MAX = 100;
const OTHER = 'other';

/** The name up to its first colon. */
const untilColon = (name: string): string => {
  const end = name.indexOf(':');
  return end === -1 ? name : name.slice(0, end);
};

/** The groups of lock names, at most 100 of them and `other`. The first names of a process decide. */
export class Groups {
  readonly #groupOf: (name: string) => string;
  readonly #known = new Set<string>();

  constructor(groupOf: (name: string) => string = untilColon) {
    this.#groupOf = groupOf;
  }

  of(name: string): string {
    const group = this.#groupOf(name);
    if (this.#known.has(group)) return group;
    if (this.#known.size >= GROUPS_MAX) return OTHER;
    this.#known.add(group);
    return group;
  }
}
