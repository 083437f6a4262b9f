import { InvalidArgumentError, UnsupportedError } from '../../errors.ts';
import { type PgClient, type PgClientClass, type PgPool, PgWire } from './pg-wire.ts';
import { type PostgresJs, type PostgresJsFactory, PostgresJsWire } from './postgres-js-wire.ts';
import type { Dial } from './wire.ts';

/**
 * A pool or a client of `pg`, or what `postgres()` of postgres.js gives. Its connections are left alone: the store opens its own, with the same settings, so that a pool whose
 * connections are all in use, or in the middle of a transaction, does not keep a hold from being renewed.
 */
export type PostgresPool = PgPool | PgClient | PostgresJs;

/** How to make one more connection like those of this pool. Throws `InvalidArgumentError` for what is none. */
export function dialOf(pool: PostgresPool): Dial {
  if (typeof pool === 'function' && 'unsafe' in pool) {
    const { options } = pool as PostgresJs;
    return (hearing) => new PostgresJsWire(options, hearing);
  }
  if (typeof pool === 'object' && pool !== null) {
    if ('totalCount' in pool && 'Client' in pool) {
      const { Client, options } = pool as PgPool & { readonly Client: PgClientClass };
      return (hearing) => new PgWire(Client, options, hearing);
    }
    if ('connectionParameters' in pool) {
      const client = pool as { readonly connectionParameters: object };
      const Client = client.constructor as PgClientClass;
      return (hearing) => new PgWire(Client, client.connectionParameters, hearing);
    }
  }
  throw new InvalidArgumentError('pool', 'must be a pool or a client of pg, or postgres() of postgres.js');
}

/** How to connect to a `postgres://` URL, with whichever client library is installed. */
export async function dialUrl(url: string): Promise<Dial> {
  const pg = await load<{ readonly default: { readonly Client: PgClientClass } }>(() => import('pg'));
  if (pg !== undefined) {
    const { Client } = pg.default;
    const settings = { connectionString: url, application_name: 'holdfast' };
    return (hearing) => new PgWire(Client, settings, hearing);
  }
  const library = await load<{ readonly default: (url: string) => PostgresJs }>(() => import('postgres'));
  if (library === undefined) {
    throw new UnsupportedError(
      'PostgreSQL needs a client library: npm install pg (or: npm install postgres)',
    );
  }
  const { options } = library.default(url);
  const factory = library.default as unknown as PostgresJsFactory;
  return (hearing) => new PostgresJsWire(options, hearing, async () => factory);
}

/** Undefined when it is not installed. */
async function load<T>(library: () => Promise<unknown>): Promise<T | undefined> {
  try {
    return (await library()) as T;
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ERR_MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}
