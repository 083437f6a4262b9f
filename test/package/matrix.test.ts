import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startSharedRedis } from '../../src/torture/servers/redis.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { installedRuntimes, judge, makeMatrixProject, PACKAGES } from '../support/matrix/cells.ts';
import { type Findings, withFindings } from '../support/matrix/compatibility-page.ts';
import { repository } from '../support/package/staged-package.ts';
import { type PostgresServer, startSharedPostgres } from '../support/servers/postgres.ts';

// `npm run matrix` runs the same suite on every runtime, library and version. This is what needs no
// download.
const project = makeMatrixProject();
const [node, bun, deno] = installedRuntimes();
let redis: Server;
let postgres: PostgresServer;

beforeAll(async () => {
  [redis, postgres] = await Promise.all([startSharedRedis(), startSharedPostgres()]);
});
afterAll(async () => {
  project[Symbol.dispose]();
  await Promise.all([redis?.stop(), postgres?.stop()]);
});

describe('the smoke suite on the packed package', () => {
  it.concurrent.each([
    ['Node.js', 'node-redis 5', node, (): string => redis.url, 'yes'],
    ['Bun', 'ioredis 6', bun, (): string => redis.url, 'yes'],
    ['Deno', 'pg, advisory', deno, (): string => postgres.url, 'yes'],
    ['Bun', 'node:sqlite, libsql', bun, (): string => 'sqlite:refused.db', 'no'],
  ] as const)('%s with %s', { timeout: 240_000 }, async (_, library, runtime, url, verdict) => {
    if (runtime === undefined) throw new Error('this runtime is not installed');
    expect(await project.run({ runtime, library, url: url() })).toMatchObject({ verdict });
  });
});

describe('the judgement of a run', () => {
  const report = (checks: object): string => JSON.stringify({ checks });

  it('fails a process that says nothing, checks nothing, or ends with an error', () => {
    expect(judge('pg, leases', 0, '', '').verdict).toBe('fails');
    expect(judge('pg, leases', 0, report({}), '').verdict).toBe('fails');
    expect(judge('pg, leases', 1, report({ mutex: 'ok' }), 'x').detail).toBe('exit 1: x');
  });

  it('names the check that failed', () => {
    const { verdict, detail } = judge('pg, leases', 0, report({ mutex: 'ok', once: 'two holders' }), '');
    expect([verdict, detail]).toEqual(['fails', 'once: two holders']);
  });

  it('expects of advisory locks, and of nothing else, that they refuse what they cannot do', () => {
    const all = report({ mutex: 'ok', semaphore: 'unsupported', once: 'unsupported' });
    expect(judge('pg, advisory', 0, all, '').verdict).toBe('yes');
    expect(judge('pg, leases', 0, all, '').verdict).toBe('fails');
    const none = report({ mutex: 'ok', semaphore: 'ok', once: 'ok' });
    expect(judge('pg, advisory', 0, none, '').verdict).toBe('fails');
  });
});

describe('the page on compatibility', () => {
  const page = readFileSync(join(repository, 'docs/compatibility.md'), 'utf8');

  it('has the outcome of every runtime and library, and no failure', () => {
    for (const name of ['Node.js 20', 'Node.js 22', 'Node.js 24', 'Node.js 26', 'Bun', 'Deno'])
      expect(page).toContain(`| ${name} `);
    for (const library of Object.keys(PACKAGES)) expect(page).toContain(`| ${library} `);
    for (const major of [14, 15, 16, 17, 18])
      expect(page).toMatch(new RegExp(`\\| PostgreSQL ${major}\\.\\d+ `));
    expect(page).toMatch(/Run on \d{4}-\d\d-\d\d with Node\.js 20\./);
    expect(page).not.toMatch(/\| fails /);
  });

  it('is written from the findings, and keeps the text around them', () => {
    const findings: Findings = {
      date: '2026-01-02',
      versions: ['Node.js 20.1.2', 'Bun 1.2.3'],
      tables: [
        {
          heads: ['store'],
          columns: ['Bun', 'Deno'],
          rows: [{ titles: ['X'], outcomes: new Map([['Bun', { verdict: 'no', detail: 'why' }]]) }],
        },
      ],
    };
    const written = withFindings(page, findings);
    expect(written).toContain(
      'Run on 2026-01-02 with Node.js 20.1.2, Bun 1.2.3.\n\n| store | Bun | Deno |\n',
    );
    expect(written).toContain('| X     | no  |      |\n');
    expect(written).not.toContain('Node.js 26');
    expect(written.slice(-200)).toBe(page.slice(-200));
    expect(() => withFindings('# Nothing', findings)).toThrow('has no <!--');
  });
});
