import type { Clock } from '../../clock.ts';
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { parseQuery, parseUser, splitQuery, unescaped } from '../shared/url.ts';
import { connectionFactoryFrom, load } from './connection-factory.ts';
import { leaseStore } from './mysql-server.ts';

/** `ssl=true` encrypts and checks the server's certificate; `ssl=unchecked` only encrypts. */
const KNOWN = ['prefix', 'ssl', 'socket'];
const FORM = /^mysql:\/\/(?:([^@/]*)@)?(\[[0-9a-f:.]+\]|[^:/@[\]]*)(?::(\d{1,5}))?\/([^/]+)$/i;

/**
 * A store in the MySQL or MariaDB of a `mysql://user:password@host:3306/database` URL, with the
 * parameters `prefix`, `ssl=true` and `socket=/path`. Rejects with `InvalidArgumentError` for another
 * parameter, and with `UnsupportedError` when mysql2 is not installed.
 */
export async function openMysql(url: string, options: { clock?: Clock | undefined } = {}): Promise<Store> {
  const { settings, prefix } = parseMysqlUrl(url);
  await load();
  return leaseStore(connectionFactoryFrom(settings), { prefix, clock: options.clock });
}

/** The text of an error never repeats the URL, which may hold a password. */
export function parseMysqlUrl(url: string): {
  settings: Record<string, unknown>;
  prefix: string | undefined;
} {
  const [location, query] = splitQuery(url);
  const parameters = parseQuery(query, KNOWN);
  const [, user = '', host = '', port = '3306', database = ''] = FORM.exec(location) ?? [];
  if (database === '' || Number(port) > 65_535)
    throw new InvalidArgumentError('url', 'must look like mysql://user:password@host:3306/database');
  const ssl = parameters.get('ssl') ?? 'false';
  if (!['true', 'false', 'unchecked'].includes(ssl))
    throw new InvalidArgumentError('url', 'must have ssl=true, ssl=unchecked or ssl=false');
  const { username, password } = parseUser(user);
  return {
    settings: {
      host: host.replace(/^\[|\]$/g, '') || 'localhost',
      port: Number(port),
      user: username,
      password,
      database: unescaped(database),
      socketPath: parameters.get('socket') ?? undefined,
      ssl:
        ssl === 'false' ? undefined : { rejectUnauthorized: ssl === 'true', verifyIdentity: ssl === 'true' },
    },
    prefix: parameters.get('prefix') ?? undefined,
  };
}
