import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Server } from '../../src/torture/servers/server.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { type Program, startProgram, stopPrograms } from '../support/process/program.ts';
import { startPgbouncer } from '../support/servers/pgbouncer.ts';
import { type PostgresServer, startPostgres } from '../support/servers/postgres.ts';
import { compileExamples, exampleFile, linesOf, startExample } from './support/example.ts';
import { pathWithHoldfast } from './support/holdfast-on-path.ts';

const folder = temporaryFolder();
const knexFolder = folder.file('knex');
const drizzleFolder = folder.file('drizzle');
let PATH: string;
let server: PostgresServer;
let pooler: Server;

beforeAll(async () => {
  compileExamples('migrate-drizzle', 'migrate-kysely', 'migrate-knex');
  PATH = await pathWithHoldfast(folder);
  server = await startPostgres({ settings: { max_connections: '100' } });
  pooler = await startPgbouncer({ port: server.port, mode: 'transaction' });
  writeDrizzleMigration();
  writeKnexMigration();
});
afterAll(async () => {
  await stopPrograms();
  await pooler?.stop();
  await server?.stop();
  folder.remove();
});

/** A migration that takes a moment and cannot be run twice. */
const STATEMENTS = [
  'CREATE TABLE accounts (name text)',
  'SELECT pg_sleep(0.3)',
  "INSERT INTO accounts VALUES ('ada')",
];

/** As `drizzle-kit generate` writes it. */
function writeDrizzleMigration(): void {
  mkdirSync(`${drizzleFolder}/meta`, { recursive: true });
  const entry = { idx: 0, version: '7', when: 1_763_000_000_000, tag: '0000_accounts', breakpoints: true };
  writeFileSync(
    `${drizzleFolder}/meta/_journal.json`,
    JSON.stringify({ version: '7', dialect: 'postgresql', entries: [entry] }),
  );
  writeFileSync(`${drizzleFolder}/0000_accounts.sql`, STATEMENTS.join(';\n--> statement-breakpoint\n'));
}

function writeKnexMigration(): void {
  mkdirSync(knexFolder);
  const up = STATEMENTS.map((statement) => `await knex.raw(${JSON.stringify(statement)});`).join('\n');
  const text = `exports.up = async (knex) => {\n${up}\n};\nexports.down = async () => {};\n`;
  writeFileSync(`${knexFolder}/0001_accounts.cjs`, text);
}

/** Creates a database. Returns its direct URL and its URL through the transaction pooler. */
async function database(): Promise<{ direct: string; pooled: string }> {
  const direct = await server.createDatabase();
  const pooled = new URL(direct);
  pooled.port = `${pooler.port}`;
  return { direct, pooled: pooled.href };
}

async function query(url: string, text: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

/** Starts two instances through the pooler and one directly; expects one migration and three starts. */
async function expectOneMigration(start: (url: string) => Program): Promise<string> {
  const { direct, pooled } = await database();
  const instances = [pooled, direct, pooled].map(start);
  for (const instance of instances) expect((await linesOf(instance)).at(-1)).toBe('ready');
  expect(await query(direct, 'SELECT name FROM accounts')).toEqual([{ name: 'ada' }]);
  return direct;
}

describe.concurrent('of three instances started together, one migrates and all three start', () => {
  it('examples/migrate-drizzle.ts', async () => {
    const start = (url: string) => startExample('migrate-drizzle', [drizzleFolder], { DATABASE_URL: url });
    await expectOneMigration(start);
  });

  it('examples/migrate-kysely.ts', async () => {
    await expectOneMigration((url) => startExample('migrate-kysely', [], { DATABASE_URL: url }));
  });

  it('examples/migrate-knex.ts, also when a dead process has left the lock of Knex set', async () => {
    const start = (url: string) => startExample('migrate-knex', [knexFolder], { DATABASE_URL: url });
    const url = await expectOneMigration(start);
    await query(url, 'UPDATE knex_migrations_lock SET is_locked = 1');
    expect(await linesOf(start(url))).toEqual(['ready']);
  });

  it('examples/migrate-and-start.sh, with the command line of Knex', async () => {
    // The command line looks for Knex in the folder of the application.
    symlinkSync(fileURLToPath(new URL('../../node_modules', import.meta.url)), folder.file('node_modules'));
    writeFileSync(folder.file('server.js'), "console.log('ready');\n");
    const script = exampleFile('migrate-and-start.sh');
    const knex = ['node_modules/.bin/knex', 'migrate:latest', '--client', 'pg'];
    await expectOneMigration((url) =>
      startProgram(script, [...knex, '--connection', url, '--migrations-directory', knexFolder], {
        env: { PATH, HOLDFAST_URL: url },
        cwd: folder.path,
        executable: 'sh',
      }),
    );
  });
});
