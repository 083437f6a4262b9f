import type { Clock } from '../../clock.ts';
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { checkParameters, parseQuery, splitQuery } from '../shared/url.ts';
import { AdvisoryStore } from './advisory/advisory-store.ts';
import { connectionFactoryFromUrl } from './connection-factory.ts';
import { leaseStore } from './lease-server.ts';

/**
 * A store in the PostgreSQL of a `postgres://` or `postgresql://` URL:
 * `postgres://user:password@host:5432/database?mode=lease` or `?mode=advisory`. This package reads
 * `mode` and `schema`; the client library gets the rest. Rejects with `InvalidArgumentError` for
 * another mode or an unknown parameter, and with `UnsupportedError` when no client library is
 * installed.
 */
export async function openPostgres(url: string, options: { clock?: Clock | undefined } = {}): Promise<Store> {
  const { rest, mode, schema } = parsePostgresUrl(url);
  const factory = await connectionFactoryFromUrl(rest);
  if (mode === 'advisory') return new AdvisoryStore(factory, { clock: options.clock });
  return leaseStore(factory, { schema, clock: options.clock });
}

interface PostgresUrl {
  /** The URL without the parameters of this library. */
  readonly rest: string;
  readonly mode: 'lease' | 'advisory';
  readonly schema: string | undefined;
}

const OURS = ['mode', 'schema'];
/** The parameters that `pg` and pg-connection-string read. */
const CLIENTS = [
  ...['host', 'port', 'user', 'password', 'options', 'client_encoding', 'replication', 'binary'],
  ...['ssl', 'sslmode', 'sslcert', 'sslkey', 'sslrootcert', 'sslnegotiation', 'uselibpqcompat'],
  ...['application_name', 'fallback_application_name', 'keepalives'],
  ...['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'query_timeout'],
];
/** Part of the URLs of hosting companies. `pg` ignores them, postgres.js reads the first two. */
const IGNORED = ['connect_timeout', 'target_session_attrs', 'channel_binding'];

/** The text of an error never contains the URL, which may have a password. */
export function parsePostgresUrl(url: string): PostgresUrl {
  const [address, query] = splitQuery(url);
  checkParameters(query, [...OURS, ...CLIENTS, ...IGNORED]);
  // Parsed as text: JavaScript's URL refuses a list of hosts and a path as the host.
  const all = (query ?? '').split('&').filter((each) => each !== '');
  const isOurs = (each: string): boolean => OURS.some((name) => new URLSearchParams(each).has(name));
  const ours = parseQuery(all.filter(isOurs).join('&'), OURS);
  const mode = ours.get('mode') ?? 'lease';
  if (mode !== 'lease' && mode !== 'advisory') {
    throw new InvalidArgumentError('url', 'must have mode=lease or mode=advisory');
  }
  const others = all.filter((each) => !isOurs(each));
  return {
    rest: others.length === 0 ? address : `${address}?${others.join('&')}`,
    mode,
    schema: ours.get('schema') ?? undefined,
  };
}
