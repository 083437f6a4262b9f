import { chownSync, writeFileSync } from 'node:fs';
import pg from 'pg';
import { findProgram } from '../../../src/torture/servers/find.ts';
import { postgresUser } from '../../../src/torture/servers/postgres.ts';
import { type Recipe, type Server, startOwnServer } from '../../../src/torture/servers/server.ts';

const PGBOUNCER = {
  title: 'PgBouncer 1.18 or newer',
  binary: 'pgbouncer',
  folders: ['/usr/sbin'],
  packages: ['pgbouncer'],
} as const;

export interface PgbouncerOptions {
  /** The port of the PostgreSQL behind it. */
  readonly port: number;
  readonly mode: 'session' | 'transaction';
  /** Server connections for each database and user; 20 unless set. */
  readonly poolSize?: number;
  /** Roles that may connect, besides `postgres`. */
  readonly users?: readonly string[];
  /** More lines for its `[pgbouncer]` section. */
  readonly settings?: readonly string[];
}

function recipe({ port: target, mode, poolSize = 20, users = [], settings = [] }: PgbouncerOptions): Recipe {
  findProgram(PGBOUNCER);
  const user = postgresUser();
  const url = (port: number): string => `postgres://postgres@127.0.0.1:${port}/postgres`;
  return {
    ...PGBOUNCER,
    urlFrom: 'HOLDFAST_PGBOUNCER_URL',
    user,
    stopSignal: 'SIGQUIT',
    prepare({ dir, port }) {
      const lines = [
        '[databases]',
        `* = host=127.0.0.1 port=${target}`,
        '[pgbouncer]',
        'listen_addr = 127.0.0.1',
        `listen_port = ${port}`,
        'unix_socket_dir =',
        'auth_type = trust',
        `auth_file = ${dir}/users.txt`,
        `pool_mode = ${mode}`,
        `default_pool_size = ${poolSize}`,
        'max_client_conn = 200',
        ...settings,
      ];
      writeFileSync(`${dir}/pgbouncer.ini`, `${lines.join('\n')}\n`);
      writeFileSync(`${dir}/users.txt`, ['postgres', ...users].map((name) => `"${name}" ""\n`).join(''));
      if (user !== undefined) chownSync(dir, user.uid, user.gid);
    },
    args: ({ dir }) => [`${dir}/pgbouncer.ini`],
    ready: async ({ port }) => {
      const client = new pg.Client({ connectionString: url(port), connectionTimeoutMillis: 2_000 });
      client.on('error', () => {});
      try {
        await client.connect();
        await client.query('SELECT 1');
      } finally {
        await client.end().catch(() => {});
      }
    },
    url: ({ port }) => url(port),
  };
}

/** A PgBouncer in front of the PostgreSQL on that port. Its databases are those of the server behind it. */
export function startPgbouncer(options: PgbouncerOptions): Promise<Server> {
  return startOwnServer(recipe(options));
}
