// `npm run matrix`: the smoke suite on the packed package, over every runtime, client library and
// version of PostgreSQL that is promised. `-- --write` writes the tables of docs/compatibility.md,
// `-- --only pg` runs the cells whose name contains the text.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startRedis } from '../src/torture/servers/redis.ts';
import { nodeBinary } from '../test/sqlite/support/nodes.ts';
import {
  type Cell,
  installedRuntimes,
  type MatrixProject,
  type MatrixRuntime,
  makeMatrixProject,
  type Outcome,
  PACKAGES,
  versionOf,
} from '../test/support/matrix/cells.ts';
import { type MatrixTable, type Row, withFindings } from '../test/support/matrix/compatibility-page.ts';
import { fetchPackage, postgresProgram } from '../test/support/matrix/fetched-packages.ts';
import { startEtcdCluster } from '../test/support/servers/etcd.ts';
import { startMysql } from '../test/support/servers/mysql.ts';
import { startPostgres } from '../test/support/servers/postgres.ts';
import { serverVersions } from '../test/support/servers/versions.ts';
import { startEnsemble } from '../test/support/servers/zookeeper.ts';

process.env.HOLDFAST_INSTALL_SERVERS ??= '1';
// Each server ends with this process.
process.setMaxListeners(32);
const { values } = parseArgs({
  options: {
    write: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    jobs: { type: 'string', default: '4' },
  },
});
const PAGE = fileURLToPath(new URL('../docs/compatibility.md', import.meta.url));
const NODES = [20, 22, 24, 26];
const POSTGRES = [14, 15, 16, 17, 18];
const POSTGRES_LIBRARIES = ['pg, leases', 'pg, advisory', 'postgres.js, leases', 'postgres.js, advisory'];
const GLIDE = { name: '@valkey/valkey-glide', version: '2' };
/** Refused on purpose: by library, where. */
const REFUSED: Readonly<Record<string, readonly string[]>> = {
  'node:sqlite, libsql': ['Bun', 'Deno'],
  'Valkey GLIDE': NODES.map((major) => `Node.js ${major}`),
};
const STORES: readonly (readonly [store: string, libraries: readonly string[]])[] = [
  ['Redis', ['ioredis 5', 'ioredis 6', 'node-redis 5', 'node-redis 6', 'Valkey GLIDE']],
  ['PostgreSQL', POSTGRES_LIBRARIES],
  ['MySQL', ['mysql2']],
  ['etcd', ['etcd3']],
  ['ZooKeeper', ['node-zookeeper-client']],
  ['SQLite', ['node:sqlite, libsql']],
];

type UrlOf = (store: string) => string;
interface Job extends Cell {
  readonly column: string;
  readonly row: Row & { readonly outcomes: Map<string, Outcome> };
}

async function allRuntimes(): Promise<MatrixRuntime[]> {
  const [own, ...others] = installedRuntimes();
  const nodes = NODES.map(async (major): Promise<MatrixRuntime> => {
    const name = `Node.js ${major}`;
    return own?.name === name ? own : { name, command: [await nodeBinary(major)] };
  });
  return [...(await Promise.all(nodes)), ...others];
}

/** `v22.11.0` of Node.js, `1.4.4` of Bun, `deno 2.9.6 (…)` of Deno. */
function runtimeVersion({ name, command: [binary] }: MatrixRuntime): string {
  const said = execFileSync(binary, ['--version'], { encoding: 'utf8' });
  return `${name.split(' ')[0]} ${/\d+\.\d+\.\d+/.exec(said)?.[0] ?? 'unknown'}`;
}

function jobsOf(runtimes: readonly MatrixRuntime[], urlOf: UrlOf, glide: string): Job[] {
  return STORES.flatMap(([store, libraries]) =>
    libraries.flatMap((library) => {
      const version = PACKAGES[library] === undefined ? glide : versionOf(PACKAGES[library]);
      const row = { titles: [store, library, version], outcomes: new Map<string, Outcome>() };
      // The native part of GLIDE is made for Node.js.
      const fitting = library === 'Valkey GLIDE' ? runtimes.slice(0, NODES.length) : runtimes;
      return fitting.map((runtime) => ({
        runtime,
        library,
        column: runtime.name,
        row,
        url: store === 'SQLite' ? `${urlOf(store)}${runtime.name.replaceAll(/\W/g, '-')}.db` : urlOf(store),
      }));
    }),
  );
}

const isWanted = ({ library, column, row: { titles } }: Job): boolean =>
  `${titles} ${library} ${column}`.includes(values.only);

async function runAll(jobs: readonly Job[], project: MatrixProject): Promise<boolean> {
  const left = jobs.filter(isWanted);
  let isGood = true;
  const worker = async (): Promise<void> => {
    for (let job = left.shift(); job !== undefined; job = left.shift()) {
      const outcome = await project.run(job);
      job.row.outcomes.set(job.column, outcome);
      const wanted = REFUSED[job.library]?.includes(job.column) ? 'no' : 'yes';
      isGood &&= outcome.verdict === wanted;
      const mark = outcome.verdict === wanted ? 'ok  ' : 'BAD ';
      console.log(
        `${mark} ${job.library.padEnd(24)} ${job.column.padEnd(16)} ${outcome.verdict} ${outcome.detail}`,
      );
    }
  };
  await Promise.all(Array.from({ length: Number(values.jobs) }, worker));
  return isGood;
}

const tableOf = (
  heads: readonly string[],
  columns: readonly string[],
  jobs: readonly Job[],
): MatrixTable => ({
  heads,
  columns,
  rows: [...new Set(jobs.map(({ row }) => row))],
});

/** Every version of PostgreSQL, one server after the other. */
async function runPostgres(runtime: MatrixRuntime, project: MatrixProject): Promise<[MatrixTable, boolean]> {
  const all: Job[] = [];
  let isGood = true;
  for (const major of values.only === '' ? POSTGRES : []) {
    const program = await postgresProgram(major);
    const version = /\d+(?:\.\d+)?/.exec(execFileSync(program, ['--version'], { encoding: 'utf8' }))?.[0];
    await using server = await startPostgres({ program });
    console.log(`PostgreSQL ${version}`);
    const row = { titles: [`PostgreSQL ${version}`], outcomes: new Map<string, Outcome>() };
    const jobs = POSTGRES_LIBRARIES.map((library): Job => {
      return { runtime, library, column: library, row, url: server.url };
    });
    isGood = (await runAll(jobs, project)) && isGood;
    all.push(...jobs);
  }
  return [tableOf(['server'], POSTGRES_LIBRARIES, all), isGood];
}

async function main(): Promise<void> {
  const runtimes = await allRuntimes();
  const glide = await fetchPackage('holdfast-matrix/glide', GLIDE.name, GLIDE.version);
  const glideVersion = JSON.parse(readFileSync(join(glide, 'package.json'), 'utf8')).version as string;
  // Its dependencies and its native part are next to it.
  using project = makeMatrixProject({ [GLIDE.name]: glide });
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-matrix-'));
  await using redis = await startRedis();
  await using postgres = await startPostgres();
  await using mysql = await startMysql();
  await using etcd = await startEtcdCluster();
  await using zookeeper = await startEnsemble();
  const urls: Readonly<Record<string, string>> = {
    Redis: redis.url,
    PostgreSQL: postgres.url,
    MySQL: await mysql.createDatabase(),
    etcd: `etcd://${etcd.addresses.join(',')}`,
    ZooKeeper: `zookeeper://${zookeeper.address}`,
    SQLite: `sqlite:${folder}/`,
  };
  const jobs = jobsOf(runtimes, (store) => urls[store] ?? '', glideVersion);
  const isGood = await runAll(jobs, project);
  const [own] = runtimes;
  const [byServer, isGoodToo] = own === undefined ? [null, false] : await runPostgres(own, project);
  rmSync(folder, { recursive: true, force: true });
  process.exitCode = isGood && isGoodToo ? 0 : 1;
  const columns = runtimes.map(({ name }) => name);
  const tables = [tableOf(['store', 'library', 'version'], columns, jobs)];
  const findings = {
    date: new Date().toISOString().slice(0, 10),
    versions: [...runtimes.map(runtimeVersion), ...serverVersions()],
    tables: byServer === null ? tables : [...tables, byServer],
  };
  if (values.write && values.only !== '') console.error('--only leaves cells out: the page is not written');
  else if (values.write) writeFileSync(PAGE, withFindings(readFileSync(PAGE, 'utf8'), findings));
}

await main();
