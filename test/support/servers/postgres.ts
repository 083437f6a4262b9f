import { execFileSync } from 'node:child_process';
import {
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { findProgram, type Program } from './find.ts';
import { type Place, type Recipe, type Server, startOwnServer, startServer } from './server.ts';

const CACHE = fileURLToPath(new URL('../../../node_modules/.cache/holdfast/', import.meta.url));

export interface PostgresOptions {
  /** More settings: `{ max_connections: '20' }`. */
  readonly settings?: Readonly<Record<string, string>>;
  readonly env?: NodeJS.ProcessEnv;
}

/** A PostgreSQL of our own. */
export interface PostgresServer extends Server {
  /** Runs one statement as the superuser, over a connection of its own. */
  query<Row extends pg.QueryResultRow = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
  ): Promise<Row[]>;
  /** A new and empty database; resolves to its URL. */
  createDatabase(): Promise<string>;
  /** Ends it without a goodbye, as a crash would, and starts it again. */
  restartImmediately(): Promise<void>;
  /** Stops one backend (by `pg_backend_pid()`) until the result is called. */
  stopBackend(processId: number): () => void;
  /** What `psql` prints, unaligned and without headers. Rejects when a statement fails. */
  psql(url: string, script: string): string;
}

const URL_FROM = 'HOLDFAST_POSTGRES_URL';

/** Debian keeps each version in a folder of its own; the newest first. */
const PROGRAM: Program = {
  title: 'PostgreSQL 12 or newer',
  binary: 'postgres',
  folders: Array.from({ length: 14 }, (_, n) => `/usr/lib/postgresql/${25 - n}/bin`),
  packages: ['postgresql'],
};

/** PostgreSQL refuses to run as root: then it runs as the user that its package makes. */
export function postgresUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const ask = (flag: string): number => Number(execFileSync('id', [flag, 'postgres']).toString());
  return { uid: ask('-u'), gid: ask('-g') };
}

/** An empty cluster, made once and copied for each server: making one takes longer than all the rest of a start. */
function templateOf(program: string): string {
  const bin = dirname(realpathSync(program));
  const version = execFileSync(program, ['--version'])
    .toString()
    .replace(/[^0-9.]+/g, '-');
  const template = join(CACHE, `postgres${version}`);
  if (existsSync(template)) return template;
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-initdb-'));
  const user = postgresUser();
  if (user !== undefined) chownSync(dir, user.uid, user.gid);
  const args = [
    '-D',
    `${dir}/data`,
    '-U',
    'postgres',
    '-A',
    'trust',
    '-E',
    'UTF8',
    '--no-locale',
    '--no-sync',
  ];
  execFileSync(join(bin, 'initdb'), args, { cwd: dir, stdio: 'pipe', ...user });
  mkdirSync(CACHE, { recursive: true });
  const fresh = `${template}.${process.pid}`;
  cpSync(`${dir}/data`, fresh, { recursive: true });
  rmSync(dir, { recursive: true, force: true });
  try {
    renameSync(fresh, template);
  } catch {
    // Another test process has made it in the same moment.
    rmSync(fresh, { recursive: true, force: true });
  }
  return template;
}

function prepare({ program, dir }: Place): void {
  execFileSync('cp', ['-r', templateOf(program), `${dir}/data`]);
  execFileSync('chmod', ['-R', 'go-rwx', `${dir}/data`]);
  const user = postgresUser();
  if (user !== undefined) execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, dir]);
}

/** What is written survives a crash of the server, not of the host: the tests crash no host. */
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  fsync: 'off',
  full_page_writes: 'off',
  shared_buffers: '32MB',
  max_connections: '60',
  shared_preload_libraries: 'pg_stat_statements',
};

/** `isOwn`: also where the environment names one to share. */
export function postgresRecipe(options: PostgresOptions = {}, isOwn = false): Recipe {
  // Finding it may install it, and only then is there a user to run it.
  const isOurs = isOwn || (process.env[URL_FROM] ?? '') === '';
  if (isOurs) findProgram(PROGRAM);
  const settings = Object.entries({ ...SETTINGS, ...options.settings });
  const url = ({ port }: Place): string => `postgres://postgres@127.0.0.1:${port}/postgres`;
  return {
    ...PROGRAM,
    urlFrom: URL_FROM,
    user: isOurs ? postgresUser() : undefined,
    stopSignal: 'SIGQUIT',
    prepare,
    args: ({ dir, port }) => [
      ...['-D', `${dir}/data`, '-p', `${port}`, '-k', dir],
      ...settings.flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    env: () => options.env ?? {},
    ready: async (place) => void (await runOnce(url(place), 'SELECT 1')),
    url,
  };
}

async function runOnce<Row extends pg.QueryResultRow>(
  url: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
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
  let databases = 0;
  const help = {
    query: async <Row extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []) =>
      await runOnce<Row>(server.url, text, values),
    async createDatabase() {
      const name = `test_${process.pid}_${databases++}`;
      await help.query(`CREATE DATABASE ${name}`);
      const url = new URL(server.url);
      url.pathname = `/${name}`;
      return url.href;
    },
    async restartImmediately() {
      server.kill('SIGQUIT');
      await server.exited();
      await server.start();
    },
    stopBackend(processId: number) {
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
