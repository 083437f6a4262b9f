import { execFileSync } from 'node:child_process';
import pg from 'pg';
import { findProgram } from '../../../src/torture/servers/find.ts';
import { type PostgresOptions, postgresRecipe } from '../../../src/torture/servers/postgres.ts';
import { type Server, startOwnServer, startServer } from '../../../src/torture/servers/server.ts';
import { CONNECT_MS, sqlServerHelp } from './sql-server.ts';

/** A PostgreSQL of our own. */
export interface PostgresServer extends Server {
  /** Runs one statement as the superuser, over a connection of its own. */
  query<Row extends pg.QueryResultRow = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
  ): Promise<Row[]>;
  /** A new and empty database; resolves to its URL. */
  createDatabase(): Promise<string>;
  /** Kills it, as in a crash, and starts it again. */
  restartImmediately(): Promise<void>;
  /** Stops one backend (by `pg_backend_pid()`) until the result is called. */
  stopBackend(processId: number): () => void;
  /** What `psql` prints, unaligned and without headers. Rejects when a statement fails. */
  psql(url: string, script: string): string;
}

async function runOnce<Row extends pg.QueryResultRow>(
  url: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: CONNECT_MS });
  client.on('error', () => {});
  try {
    await client.connect();
    return (await client.query<Row>(text, [...values])).rows;
  } finally {
    await client.end().catch(() => {});
  }
}

/** A PostgreSQL to share: the one that HOLDFAST_POSTGRES_URL names, else our own. */
export async function startSharedPostgres(): Promise<PostgresServer> {
  return withHelp(await startServer(postgresRecipe()));
}

/** A PostgreSQL of our own, to kill, pause and reconfigure. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  return withHelp(await startOwnServer(postgresRecipe(options, true)));
}

function withHelp(server: Server): PostgresServer {
  const help = {
    ...sqlServerHelp(server, (statement) => runOnce(server.url, statement), 'SIGQUIT'),
    query: async <Row extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []) =>
      await runOnce<Row>(server.url, text, values),
    stopBackend(processId: number) {
      // A signal to 0 would stop the whole group of this process, and so the run of all tests.
      if (!(processId > 0)) throw new Error('there is no backend to stop');
      process.kill(processId, 'SIGSTOP');
      return () => void process.kill(processId, 'SIGCONT');
    },
    psql: (url: string, script: string) =>
      execFileSync(
        findProgram({ title: 'psql', binary: 'psql', packages: ['postgresql-client'] }),
        [url, '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1'],
        { input: script, encoding: 'utf8', stdio: ['pipe', 'pipe', 'pipe'] },
      ).trim(),
  };
  return Object.assign(server, help);
}
