import { InvalidArgumentError } from '../../errors.ts';
import { parseHosts, parseUser } from '../host-list.ts';

/** The parts of a URL with several hosts. */
export interface Hosts {
  /** `host:port`, each once. */
  readonly list: readonly string[];
  readonly addresses: ReadonlyArray<{ readonly host: string; readonly port: number }>;
  readonly username: string;
  readonly password: string;
  /** Without the slash. */
  readonly path: string;
}

const SHAPE = /^[a-z+]+:\/\/(?:([^@/?#]*)@)?([^@/?#]+)\/?([^/?#]*)$/i;

/** Reads `scheme://user:password@a:1,b:2,c/path`. Throws `InvalidArgumentError`, which never repeats the URL: it may hold a password. */
export function hostsIn(url: string, form: string, port = 6_379): Hosts {
  const [, user, hosts, path = ''] = SHAPE.exec(url) ?? [];
  if (hosts === undefined) throw new InvalidArgumentError('url', `must look like ${form}`);
  const list = parseHosts(hosts, { form, port });
  if (new Set(list).size < list.length) throw new InvalidArgumentError('url', 'must name every host once');
  const addresses = list.map((each) => {
    const at = each.lastIndexOf(':');
    return { host: each.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(each.slice(at + 1)) };
  });
  return { list, addresses, ...parseUser(user ?? ''), path: decodePath(path) };
}

function decodePath(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    throw new InvalidArgumentError('url', 'has a percent sign that escapes nothing; write %25 for one');
  }
}
