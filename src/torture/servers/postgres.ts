import { execFileSync } from 'node:child_process';
import { chownSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findProgram, type Program } from './find.ts';
import { exchange } from './ports.ts';
import type { Recipe, ServerInstance } from './server.ts';
import { templateFolder } from './template.ts';

export interface PostgresOptions {
  /** More settings: `{ max_connections: '20' }`. */
  readonly settings?: Readonly<Record<string, string>>;
  readonly env?: NodeJS.ProcessEnv;
  /** The path of another `postgres` than the one that is installed. */
  readonly program?: string;
}

const URL_FROM = 'HOLDFAST_POSTGRES_URL';

/** Debian keeps each version in a folder of its own; the newest first. */
const PROGRAM: Program = {
  title: 'PostgreSQL 12 or newer',
  binary: 'postgres',
  folders: Array.from({ length: 14 }, (_, n) => `/usr/lib/postgresql/${25 - n}/bin`),
  packages: ['postgresql'],
};

/** PostgreSQL refuses to run as root: then it runs as the user of its package. */
export function postgresUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const ask = (flag: string): number => Number(execFileSync('id', [flag, 'postgres']).toString());
  return { uid: ask('-u'), gid: ask('-g') };
}

function templateOf(program: string): string {
  const version = execFileSync(program, ['--version'])
    .toString()
    .replace(/[^0-9.]+/g, '-');
  return templateFolder(`postgres${version}`, (dir) => {
    const user = postgresUser();
    if (user !== undefined) chownSync(dir, user.uid, user.gid);
    const args = ['-D', `${dir}/data`, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8'];
    const initdb = join(dirname(realpathSync(program)), 'initdb');
    execFileSync(initdb, [...args, '--no-locale', '--no-sync'], { cwd: dir, stdio: 'pipe', ...user });
  });
}

function prepare({ program, dir }: ServerInstance): void {
  execFileSync('cp', ['-r', templateOf(program), `${dir}/data`]);
  execFileSync('chmod', ['-R', 'go-rwx', `${dir}/data`]);
  const user = postgresUser();
  if (user !== undefined) execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, dir]);
}

/** Writes survive a crash of the server, not of the host: the tests crash no host. */
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
  // Finding the program may install it, which makes the user that runs it.
  const isOurs = isOwn || (process.env[URL_FROM] ?? '') === '';
  if (isOurs) findProgram(PROGRAM);
  const settings = Object.entries({ ...SETTINGS, ...options.settings });
  const url = ({ port }: ServerInstance): string => `postgres://postgres@127.0.0.1:${port}/postgres`;
  return {
    ...PROGRAM,
    path: options.program,
    urlFrom: URL_FROM,
    user: isOurs ? postgresUser() : undefined,
    stopSignal: 'SIGQUIT',
    prepare,
    args: ({ dir, port }) => [
      ...['-D', `${dir}/data`, '-p', `${port}`, '-k', dir],
      ...settings.flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    env: () => options.env ?? {},
    ready: ({ port }) => answersLogin(port),
    url,
  };
}

/** The first message of a client: the version of the protocol, and the user. */
function loginMessage(): Buffer {
  const fields = Buffer.from('user\0postgres\0database\0postgres\0\0');
  const head = Buffer.alloc(8);
  head.writeInt32BE(head.length + fields.length, 0);
  head.writeInt32BE(3 << 16, 4);
  return Buffer.concat([head, fields]);
}

/** Throws until a login succeeds: a server that starts or recovers answers with an error. */
async function answersLogin(port: number): Promise<void> {
  const answer = await exchange(port, loginMessage(), 5_000);
  if (!answer.startsWith('R')) throw new Error(answer.replace(/[^ -~]+/g, ' ').trim());
}
