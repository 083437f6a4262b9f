import { InvalidArgumentError } from '../../errors.ts';
import { parseHosts, parseQuery, parseUser, splitQuery, unescaped } from '../shared/url.ts';
import { checkPrefix } from './keys.ts';

/** The parts of a URL with several hosts. */
export interface Hosts {
  /** `host:port`, each once. */
  readonly list: readonly string[];
  readonly addresses: ReadonlyArray<{ readonly host: string; readonly port: number }>;
  readonly username: string;
  readonly password: string;
  /** Without the slash. */
  readonly path: string;
  readonly prefix: string | undefined;
}

const SHAPE = /^[a-z+]+:\/\/(?:([^@/?#]*)@)?([^@/?#]+)\/?([^/?#]*)(?:\?([^#]*))?$/i;

/**
 * Parses `scheme://user:password@a:1,b:2,c/path?prefix=text`. Throws `InvalidArgumentError`, which
 * never contains the URL: it may hold a password.
 */
export function hostsIn(url: string, form: string, port = 6_379): Hosts {
  const [, user, hosts, path = '', query] = SHAPE.exec(url) ?? [];
  if (hosts === undefined) throw new InvalidArgumentError('url', `must look like ${form}`);
  const prefix = prefixIn(parseQuery(query, ['prefix']));
  const list = parseHosts(hosts, { form, port });
  if (new Set(list).size < list.length) throw new InvalidArgumentError('url', 'must name every host once');
  const addresses = list.map((each) => {
    const at = each.lastIndexOf(':');
    return { host: each.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(each.slice(at + 1)) };
  });
  return { list, addresses, ...parseUser(user ?? ''), path: unescaped(path), prefix };
}

/**
 * Parses the parameters of `redis://host:port/database?prefix=text&family=6`. The client library
 * parses the rest. `family`: the addresses of a host name to use: 4, 6, or 0 for both.
 */
export function oneHostIn(url: string) {
  const [bareUrl, query] = splitQuery(url);
  const parameters = parseQuery(query, ['prefix', 'family']);
  const family = parameters.get('family');
  if (family !== null && !/^[046]$/.test(family))
    throw new InvalidArgumentError('url', 'has a parameter family that is not 4, 6 or 0 for both');
  const socket: { family?: number } = family === null ? {} : { family: Number(family) };
  return { bareUrl, prefix: prefixIn(parameters), socket };
}

function prefixIn(parameters: URLSearchParams): string | undefined {
  const prefix = parameters.get('prefix') ?? undefined;
  checkPrefix(prefix);
  return prefix;
}
