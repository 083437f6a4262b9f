import { listScript } from '../../generated/redis-scripts.ts';
import { runAlone, sendAlone } from './call.ts';
import type { Gate } from './gate.ts';
import type { Keys } from './keys.ts';

/** Keys that the server looks at in one step: enough to be quick, few enough not to keep others waiting. */
const PAGE = 500;

/** Names of the locks that begin so, each once. Finds what was there all the time; what comes or goes meanwhile may be missed. */
export async function* listNames(
  gate: Gate,
  keys: Keys,
  namePrefix: string,
  signal?: AbortSignal,
): AsyncIterable<string> {
  const seen = new Set<string>();
  const clientPrefix = gate.link.keyPrefix;
  for (const pattern of keys.patterns(clientPrefix, namePrefix)) {
    let cursor = '0';
    do {
      const page = await sendAlone(gate, 'scan', [cursor, 'MATCH', pattern, 'COUNT', `${PAGE}`], signal);
      const [next, found] = page as [string, string[]];
      cursor = String(next);
      const names = found
        .map((key) => keys.nameIn(key.slice(clientPrefix.length)))
        .filter((name) => name !== null);
      const fresh = names.filter((name) => !seen.has(name));
      for (const name of fresh) seen.add(name);
      yield* await locksAmong(gate, keys, [...new Set(fresh)], signal);
    } while (cursor !== '0');
  }
}

/** With an empty prefix, the keys of everything else in the database are candidates too. */
async function locksAmong(
  gate: Gate,
  keys: Keys,
  names: readonly string[],
  signal?: AbortSignal,
): Promise<string[]> {
  if (names.length === 0) return [];
  const all = names.flatMap((name) => [keys.of(name).plain, keys.line(name)]);
  const reply = await runAlone(gate, listScript, all, [keys.prefix === '' ? '0' : '1'], signal);
  return names.filter((_, index) => Number((reply as unknown[])[index]) === 1);
}
