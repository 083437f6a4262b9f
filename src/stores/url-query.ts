import { InvalidArgumentError } from '../errors.ts';

/** What comes before the first `?`, and what comes after it; `null` where there is none. */
export function splitQuery(url: string): readonly [place: string, query: string | null] {
  const at = url.indexOf('?');
  return at < 0 ? [url, null] : [url.slice(0, at), url.slice(at + 1)];
}

/**
 * The parameters of a URL, each of them known and given once: one that is misspelled must not pass for one that was obeyed. Throws `InvalidArgumentError`, which never repeats a value: it may be
 * a password.
 */
export function parseQuery(query: string | null | undefined, known: readonly string[]): URLSearchParams {
  checkParameters(query, known);
  try {
    decodeURIComponent(query ?? '');
  } catch {
    throw new InvalidArgumentError('url', 'has a percent sign that escapes nothing; write %25 for one');
  }
  return new URLSearchParams(query ?? '');
}

/** Refuses parameters that are not known and such as are given twice, as `parseQuery` does, and reads none of them. */
export function checkParameters(query: string | null | undefined, known: readonly string[], hint = ''): void {
  const seen = new Set<string>();
  for (const name of new URLSearchParams(query ?? '').keys()) {
    if (!known.includes(name)) {
      const which = isSafeToShow(name, query ?? '') ? ` ${JSON.stringify(name)}` : '';
      const instead = known.length === 0 ? 'there are none here' : `known here: ${known.join(', ')}`;
      throw new InvalidArgumentError(
        'url',
        `has an unknown parameter${which}; ${instead}${hint === '' ? '' : `; ${hint}`}`,
      );
    }
    if (seen.has(name)) throw new InvalidArgumentError('url', `has the parameter ${name} twice`);
    seen.add(name);
  }
}

/** A password with a `?` in it that nobody has escaped looks like a parameter, and then an @ comes after it. */
function isSafeToShow(name: string, query: string): boolean {
  return /^[\w.+-]{1,64}$/.test(name) && !query.includes('@');
}
