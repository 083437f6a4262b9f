import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findProgram, type Program } from './find.ts';
import { exchange } from './ports.ts';
import type { Recipe, ServerInstance } from './server.ts';
import { templateFolder } from './template.ts';

export interface MysqlOptions {
  /** More settings: `{ max_connections: '20' }`. */
  readonly settings?: Readonly<Record<string, string>>;
  readonly env?: NodeJS.ProcessEnv;
}

const URL_FROM = 'HOLDFAST_MYSQL_URL';

/** An empty database that every server has. */
export const DATABASE = 'locks';

const PROGRAM: Program = {
  title: 'MariaDB 10.6 or newer',
  binary: 'mariadbd',
  folders: ['/usr/sbin', '/usr/local/sbin'],
  packages: ['mariadb-server'],
};

/** MariaDB refuses to run as root: then it runs as the user of its package. */
function mysqlUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const ask = (flag: string): number => Number(execFileSync('id', [flag, 'mysql']).toString());
  return { uid: ask('-u'), gid: ask('-g') };
}

/** Small files: making them would take most of the time of a start. */
const SIZES = ['--innodb-log-file-size=8M', '--innodb-buffer-pool-size=32M'];

function templateOf(program: string): string {
  const version =
    execFileSync(program, ['--version'])
      .toString()
      .match(/[\d.]+-MariaDB/i)?.[0] ?? 'mariadb';
  return templateFolder(version, (dir) => {
    const places = [join(dirname(program), '../bin/mariadb-install-db'), '/usr/bin/mariadb-install-db'];
    const installer = places.find(existsSync) ?? 'mariadb-install-db';
    const args = [
      ...['--no-defaults', `--datadir=${dir}/data`, '--auth-root-authentication-method=normal'],
      ...['--skip-test-db', ...SIZES, ...(process.getuid?.() === 0 ? ['--user=mysql'] : [])],
    ];
    chmodSync(dir, 0o755);
    execFileSync(installer, args, { cwd: dir, stdio: 'pipe' });
  });
}

function prepare({ program, dir }: ServerInstance): void {
  writeFileSync(`${dir}/init.sql`, `CREATE DATABASE IF NOT EXISTS ${DATABASE};\n`);
  execFileSync('cp', ['-r', templateOf(program), `${dir}/data`]);
  const user = mysqlUser();
  if (user !== undefined) execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, dir]);
}

/** Writes survive a crash of the server, not of the host: the tests crash no host. */
const SETTINGS: Readonly<Record<string, string>> = {
  'bind-address': '127.0.0.1',
  'innodb-flush-log-at-trx-commit': '2',
  'innodb-doublewrite': '0',
  'max-connections': '200',
  'skip-name-resolve': 'ON',
  'character-set-server': 'utf8mb4',
};

/** `isOwn`: also where the environment names one to share. */
export function mysqlRecipe(options: MysqlOptions = {}, isOwn = false): Recipe {
  // Finding the program may install it, which makes the user that runs it.
  const isOurs = isOwn || (process.env[URL_FROM] ?? '') === '';
  if (isOurs) findProgram(PROGRAM);
  const settings = Object.entries({ ...SETTINGS, ...options.settings });
  const url = ({ port }: ServerInstance): string => `mysql://root@127.0.0.1:${port}/mysql`;
  return {
    ...PROGRAM,
    urlFrom: URL_FROM,
    user: isOurs ? mysqlUser() : undefined,
    stopSignal: 'SIGKILL',
    prepare,
    args: ({ dir, port }) => [
      ...['--no-defaults', `--datadir=${dir}/data`, `--port=${port}`, `--socket=${dir}/socket`],
      ...[`--pid-file=${dir}/pid`, `--init-file=${dir}/init.sql`, ...SIZES],
      ...settings.map(([name, value]) => `--${name}=${value}`),
    ],
    env: () => options.env ?? {},
    ready: ({ port }) => greets(port),
    url,
  };
}

/** Throws until the server greets a client with version 10 of its protocol. */
async function greets(port: number): Promise<void> {
  const answer = await exchange(port, '', 5_000);
  if (answer.charCodeAt(4) !== 10) throw new Error(answer.replace(/[^ -~]+/g, ' ').trim());
}
