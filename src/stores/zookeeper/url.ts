import { InvalidArgumentError } from '../../errors.ts';
import { parseHosts, parseQuery, parseUser, unescaped } from '../shared/url.ts';

/** The parts of a `zookeeper://` URL. */
export interface ZookeeperUrl {
  /** In the client's format: `a:2181,b:2181`. */
  readonly hosts: string;
  /** The node above all lock nodes: the path of the URL, then the parameter `root`. */
  readonly root: string;
  readonly auth: { readonly username: string; readonly password: string } | null;
  readonly sessionMs: number;
}

const PORT = 2181;
const FORM = 'zookeeper://[user:password@]host[:port],…[/chroot][?root=/locks&sessionMs=30000]';
const KNOWN = ['root', 'sessionMs'];
const ROOT = '/locks';
const SESSION_MS = 30_000;
const SESSION_MS_MAX = 86_400_000;

/** Throws `InvalidArgumentError`, whose message does not repeat parts that may contain a password. */
export function parseZookeeperUrl(url: string): ZookeeperUrl {
  const match = /^zookeeper:\/\/(?:([^@/?#]*)@)?([^@/?#]+)((?:\/[^/?#]+)*)\/?(?:\?([^#]*))?$/i.exec(url);
  const [, user, list, chroot = '', query] = match ?? [];
  if (list === undefined) throw new InvalidArgumentError('url', `must look like ${FORM}`);
  const options = parseQuery(query, KNOWN);
  const sessionMs = Number(options.get('sessionMs') ?? SESSION_MS);
  if (!Number.isInteger(sessionMs) || sessionMs < 1 || sessionMs > SESSION_MS_MAX)
    throw new InvalidArgumentError('url', 'has a parameter sessionMs that is not a number of milliseconds');
  const hosts = parseHosts(list, { form: FORM, port: PORT });
  // The client library reads the first colon as the one before the port.
  if (hosts.some((host) => host.startsWith('[')))
    throw new InvalidArgumentError('url', 'must name IPv6 hosts: the client library takes no such addresses');
  return {
    hosts: hosts.join(','),
    root: rootOf(unescaped(chroot, decodeURI), options.get('root') ?? ROOT),
    auth: user === undefined ? null : parseUser(user),
    sessionMs,
  };
}

function rootOf(chroot: string, root: string): string {
  if (root === '/') return chroot === '' ? root : chroot;
  if (!/^(?:\/[^/]+)+$/.test(root))
    throw new InvalidArgumentError('url', `has a parameter root that is no path of a node, such as ${ROOT}`);
  return chroot + root;
}
