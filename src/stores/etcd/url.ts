import { InvalidArgumentError } from '../../errors.ts';
import { parseHosts, parseQuery, parseUser } from '../shared/url.ts';

export interface EtcdUrl {
  readonly hosts: readonly string[];
  readonly auth: { readonly username: string; readonly password: string } | null;
  /** Paths of PEM files: the authority of the members' certificates, and the client's certificate. */
  readonly ca: string | null;
  readonly cert: string | null;
  readonly key: string | null;
  readonly prefix: string | null;
}

const PORT = 2379;
const FORM = 'etcd://[user:password@]host[:port],…[?tls=true&ca=FILE&cert=FILE&key=FILE&prefix=TEXT]';
const KNOWN = ['tls', 'ca', 'cert', 'key', 'prefix'];

/** Reads a URL with several hosts, which `URL` cannot. Errors do not repeat passwords. */
export function parseEtcdUrl(url: string): EtcdUrl {
  const match = /^etcd:\/\/(?:([^@/?#]*)@)?([^@/?#]+)\/?(?:\?([^#]*))?$/i.exec(url);
  const [, user, list, query] = match ?? [];
  if (list === undefined) throw new InvalidArgumentError('url', `must look like ${FORM}`);
  const options = parseQuery(query, KNOWN);
  const [ca, cert, key] = [options.get('ca'), options.get('cert'), options.get('key')];
  if ((cert === null) !== (key === null))
    throw new InvalidArgumentError('url', 'must name both cert and key, or neither');
  const tls = isTrue(options.get('tls')) || ca !== null || cert !== null;
  const hosts = parseHosts(list, { form: FORM, port: PORT }).map(
    (host) => `${tls ? 'https' : 'http'}://${host}`,
  );
  const auth = user === undefined ? null : parseUser(user);
  return { hosts, auth, ca, cert, key, prefix: options.get('prefix') };
}

function isTrue(value: string | null): boolean {
  if (value === null || value === 'false' || value === '0') return false;
  if (value === 'true' || value === '1' || value === '') return true;
  throw new InvalidArgumentError('url', 'has a parameter tls that is neither true nor false');
}
