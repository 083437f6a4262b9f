import { InvalidArgumentError } from '../../errors.ts';
import { firstInstalled } from '../shared/client-library.ts';
import { PG, type Pg, POSTGRES_JS, type PostgresJsLibrary } from './client-library.ts';
import type { ConnectionFactory } from './connection.ts';
import { type PgClient, type PgClientClass, PgDriver, type PgPool } from './pg-driver.ts';
import { type PostgresJs, PostgresJsDriver } from './postgres-js-driver.ts';

/**
 * A pool or a client of `pg`, or what `postgres()` of postgres.js returns. Its connections are not
 * used. The store opens its own with the same settings, so that a busy pool, or a transaction on the
 * client, cannot delay a renewal.
 */
export type PostgresPool = PgPool | PgClient | PostgresJs;

/** Opens connections with the settings of this pool. Throws `InvalidArgumentError` for other values. */
export function connectionFactoryOf(pool: PostgresPool): ConnectionFactory {
  if (typeof pool === 'function' && 'unsafe' in pool) {
    const { options } = pool as PostgresJs;
    const hosts = { first: 0 };
    return (events) => new PostgresJsDriver(options, hosts, events);
  }
  if (typeof pool === 'object' && pool !== null) {
    if ('totalCount' in pool && 'Client' in pool) {
      const { Client, options } = pool as PgPool & { readonly Client: PgClientClass };
      return (events) => new PgDriver(Client, options, events);
    }
    if ('connectionParameters' in pool) {
      const client = pool as { readonly connectionParameters: object };
      const Client = client.constructor as PgClientClass;
      return (events) => new PgDriver(Client, client.connectionParameters, events);
    }
  }
  throw new InvalidArgumentError('pool', 'must be a pool or a client of pg, or postgres() of postgres.js');
}

/** Opens connections to a `postgres://` URL, with the client library that is installed. */
export async function connectionFactoryFromUrl(url: string): Promise<ConnectionFactory> {
  const { library } = await firstInstalled<Pg | PostgresJsLibrary>('PostgreSQL', [PG, POSTGRES_JS]);
  if ('Client' in library) {
    const settings = { connectionString: url, application_name: 'holdfast' };
    return (events) => new PgDriver(library.Client, settings, events);
  }
  return connectionFactoryOf(library(url));
}
