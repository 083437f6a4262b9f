/** What a name in the store is used for. Each use has names of its own, but for locks and elections. */
export type Use = 'lock' | 'once' | 'rateLimit' | 'schedule';

/**
 * Stored names of the other uses begin with a word and this character. No user's name contains a
 * control character, so none collides; and every store takes any byte, or encodes it.
 */
const SEPARATOR = '\u001f';

const PREFIXES: Record<Use, string> = {
  lock: '',
  once: `once${SEPARATOR}`,
  rateLimit: `rate${SEPARATOR}`,
  schedule: `schedule${SEPARATOR}`,
};

/** What follows the name of a schedule in the names of its slots. */
const SLOT = new RegExp(`${SEPARATOR}(-?[0-9a-z]+)$`);

export const USES = Object.keys(PREFIXES) as readonly Use[];

/** The name under which the store has it. */
export function storedName(use: Use, name: string): string {
  return PREFIXES[use] + name;
}

/** The use and the user's own name of a stored name. */
export function usedName(stored: string): { readonly use: Use; readonly name: string } {
  if (!stored.includes(SEPARATOR)) return { use: 'lock', name: stored };
  const use = USES.find((each) => each !== 'lock' && stored.startsWith(PREFIXES[each])) ?? 'lock';
  const name = stored.slice(PREFIXES[use].length);
  return { use, name: use === 'schedule' ? name.replace(SLOT, '') : name };
}

/** What the names of a schedule's slots begin with, and the names of nothing else. */
export function slotPrefix(schedule: string): string {
  return storedName('schedule', schedule) + SEPARATOR;
}

/** The name under which the store remembers one slot of a schedule. In base 36, to be short. */
export function slotName(schedule: string, slotMs: number): string {
  return slotPrefix(schedule) + slotMs.toString(36);
}

/** The slot of such a name, in milliseconds since 1970; `null` for every other name. */
export function slotIn(stored: string): number | null {
  const match = stored.startsWith(PREFIXES.schedule)
    ? SLOT.exec(stored.slice(PREFIXES.schedule.length))
    : null;
  return match === null ? null : Number.parseInt(match[1] ?? '', 36);
}

/**
 * The note of a finished run: its claim stays in the store, unrenewed, for as long as the run is
 * remembered.
 */
export const DONE = '{"once":"done"}';
