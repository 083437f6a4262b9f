import { InvalidArgumentError } from '../../errors.ts';

/** The parts before and after the first `?`. The second is `null` when there is no `?`. */
export function splitQuery(url: string): readonly [path: string, query: string | null] {
  const at = url.indexOf('?');
  return at < 0 ? [url, null] : [url.slice(0, at), url.slice(at + 1)];
}

/**
 * The parameters of a URL. Throws `InvalidArgumentError` for one that is unknown or given twice: a
 * misspelled parameter must not be ignored. The error never repeats a value: it may be a password.
 */
export function parseQuery(query: string | null | undefined, known: readonly string[]): URLSearchParams {
  checkParameters(query, known);
  unescaped(query ?? '');
  return new URLSearchParams(query ?? '');
}

/** Refuses the same parameters as `parseQuery`, without returning any. */
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

/** After an unescaped `?` in a password, the rest of the password looks like a parameter. */
function isSafeToShow(name: string, query: string): boolean {
  return /^[\w.+-]{1,64}$/.test(name) && !query.includes('@');
}

/** Splits `a,b:1,c`, and adds the default port to hosts without one. Errors show `form`. */
export function parseHosts(list: string, { form, port }: { form: string; port: number }): string[] {
  return list.split(',').map((host) => {
    if (!/^(?:\[[0-9a-f:.]+\]|[^:[\]]+)(?::\d{1,5})?$/i.test(host))
      throw new InvalidArgumentError('url', `must look like ${form}`);
    return /:\d+$/.test(host.replace(/^\[.*\]/, '')) ? host : `${host}:${port}`;
  });
}

/** Splits `user:password`, and decodes both. */
export function parseUser(user: string): { username: string; password: string } {
  const [username = '', ...rest] = user.split(':');
  return { username: unescaped(username), password: unescaped(rest.join(':')) };
}

/** Decodes the percent escapes of a part of a URL. */
export function unescaped(part: string, decode = decodeURIComponent): string {
  try {
    return decode(part);
  } catch {
    throw new InvalidArgumentError('url', 'has an invalid percent escape; write %25 for a percent sign');
  }
}
