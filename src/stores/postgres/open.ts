import type { Clock } from '../../clock.ts';
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { checkParameters, parseQuery, splitQuery } from '../url-query.ts';
import { AdvisoryStore } from './advisory/advisory-store.ts';
import { dialUrl } from './dial.ts';
import { PostgresLeaseStore } from './lease-store.ts';

/**
 * A store in the PostgreSQL of a `postgres://` or `postgresql://` URL: `postgres://user:password@host:5432/database?mode=lease` or `?mode=advisory`. `mode` is ours, and so is `schema`; everything else is for
 * the client library. Rejects with `InvalidArgumentError` for a mode that is none and for a parameter that the client library does not know either, and with `UnsupportedError` when no client library is installed.
 */
export async function openPostgres(url: string, options: { clock?: Clock | undefined } = {}): Promise<Store> {
  const { rest, mode, schema } = parsePostgresUrl(url);
  const dial = await dialUrl(rest);
  if (mode === 'advisory') return new AdvisoryStore(dial, { clock: options.clock });
  return new PostgresLeaseStore(dial, { schema, clock: options.clock });
}

interface PostgresUrl {
  /** Without what is ours. */
  readonly rest: string;
  readonly mode: 'lease' | 'advisory';
  readonly schema: string | undefined;
}

const OURS = ['mode', 'schema'];
/** What `pg` and pg-connection-string read in a URL. */
const CLIENTS = [
  ...['host', 'port', 'user', 'password', 'options', 'client_encoding', 'replication', 'binary'],
  ...['ssl', 'sslmode', 'sslcert', 'sslkey', 'sslrootcert', 'sslnegotiation', 'uselibpqcompat'],
  ...['application_name', 'fallback_application_name', 'keepalives'],
  ...['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'query_timeout'],
];
/** Not read by `pg`, but part of the URLs that hosting companies hand out, and those are used as they are. postgres.js reads the first two. */
const PASSED_OVER = ['connect_timeout', 'target_session_attrs', 'channel_binding'];

/** The text of an error never repeats the URL, which may hold a password. */
export function parsePostgresUrl(url: string): PostgresUrl {
  const [place, query] = splitQuery(url);
  checkParameters(query, [...OURS, ...CLIENTS, ...PASSED_OVER]);
  // As text: a host may be a list, or a path, and then this is no URL as JavaScript has it.
  const all = (query ?? '').split('&').filter((each) => each !== '');
  const isOurs = (each: string): boolean => OURS.some((name) => new URLSearchParams(each).has(name));
  const ours = parseQuery(all.filter(isOurs).join('&'), OURS);
  const mode = ours.get('mode') ?? 'lease';
  if (mode !== 'lease' && mode !== 'advisory') {
    throw new InvalidArgumentError('url', 'must have mode=lease or mode=advisory');
  }
  const others = all.filter((each) => !isOurs(each));
  return {
    rest: others.length === 0 ? place : `${place}?${others.join('&')}`,
    mode,
    schema: ours.get('schema') ?? undefined,
  };
}
