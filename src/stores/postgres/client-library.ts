import { type ClientLibrary, exportsWith, importInstalled } from '../shared/client-library.ts';
import type { PgClientClass } from './pg-driver.ts';
import type { PostgresJs, PostgresJsFactory } from './postgres-js-driver.ts';

export interface Pg {
  readonly Client: PgClientClass;
}

export type PostgresJsLibrary = PostgresJsFactory & ((url: string) => PostgresJs);

// Every bundler takes an installed client into the bundle, and passes over a missing one because
// its import stands in a `try`. `pg` cannot run in an ES module that esbuild wrote, since it calls
// require(): it then comes from `node_modules`.

export const PG: ClientLibrary<Pg> = {
  name: 'pg',
  async load() {
    try {
      return exportsWith<Pg>('Client', await import('pg'));
    } catch {
      return exportsWith<Pg>('Client', await importInstalled('pg'));
    }
  },
};

export const POSTGRES_JS: ClientLibrary<PostgresJsLibrary> = {
  name: 'postgres',
  async load() {
    let loaded: unknown;
    try {
      loaded = await import('postgres');
    } catch {
      loaded = await importInstalled('postgres');
    }
    const library = (loaded as { readonly default?: unknown } | undefined)?.default ?? loaded;
    return library as PostgresJsLibrary | undefined;
  },
};
