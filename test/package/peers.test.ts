import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { createLocks, openLocks } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { nodeBinary } from '../sqlite/support/nodes.ts';
import { installPackage } from '../support/package/installed-package.ts';
import { manifest } from '../support/package/public-entries.ts';
import { repository, startNode } from '../support/package/staged-package.ts';

// Compilers and package managers take seconds of processor time, and other test files run meanwhile.
vi.setConfig({ testTimeout: 240_000 });

const installed = installPackage();
afterAll(() => installed[Symbol.dispose]());

/**
 * Versions that an application may have for something else. Only their names and versions are
 * installed: nothing may load them.
 */
const OLD: Readonly<Record<string, string>> = {
  'better-sqlite3': '11.10.0',
  ioredis: '4.28.5',
  libsql: '0.4.7',
  pg: '7.18.2',
  redis: '4.7.1',
};

function writeOld(folder: string, name: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name, version: OLD[name], main: 'index.js' }));
  writeFileSync(join(folder, 'index.js'), `throw new Error('${name} ${OLD[name]} was loaded');`);
}

/** A project with the package, these old libraries, and these that work. */
function projectWith(name: string, old: readonly string[], current: readonly string[] = []): string {
  const modules = join(installed.project, name, 'node_modules');
  mkdirSync(modules, { recursive: true });
  cpSync(join(installed.project, 'node_modules/holdfast'), join(modules, 'holdfast'), { recursive: true });
  for (const each of old) writeOld(join(modules, each), each);
  for (const each of current) symlinkSync(join(repository, 'node_modules', each), join(modules, each));
  return join(installed.project, name);
}

/** What opening says; the scheme alone when it works. Nothing is connected. */
async function open(project: string, url: string): Promise<string> {
  const program = `
    const { openLocks } = require('holdfast');
    openLocks('${url}', { connect: false }).then((locks) => locks.close()).then(
      () => console.log('opened'),
      (error) => console.log(error.code, error.message)).finally(() => process.exit());`;
  return (await startNode(project, ['-e', program])).trimEnd();
}

describe('client libraries', () => {
  it('are optional, and of any version to npm', () => {
    const { peerDependencies, peerDependenciesMeta } = manifest();
    expect(new Set(Object.values(peerDependencies))).toEqual(new Set(['*']));
    expect(Object.keys(peerDependenciesMeta)).toEqual(Object.keys(peerDependencies));
    expect(Object.values(peerDependenciesMeta)).toEqual(
      Object.keys(peerDependencies).map(() => ({ optional: true })),
    );
    expect(Object.keys(peerDependencies)).toContain('libsql');
  });

  it('npm installs the package beside versions that it cannot work with', () => {
    const project = join(installed.project, 'npm');
    mkdirSync(project);
    for (const name of Object.keys(OLD)) writeOld(join(project, 'old', name), name);
    const brought = Object.keys(manifest().dependencies ?? {}).map((name) => [
      name,
      `file:${join(repository, 'node_modules', name)}`,
    ]);
    const dependencies = {
      ...Object.fromEntries(Object.keys(OLD).map((name) => [name, `file:./old/${name}`])),
      holdfast: `file:${installed.tarball}`,
    };
    const own = { name: 'app', private: true, dependencies, overrides: Object.fromEntries(brought) };
    writeFileSync(join(project, 'package.json'), JSON.stringify(own));
    const args = ['install', '--offline', '--no-audit', '--no-fund', '--cache', join(project, 'cache')];
    const output = execFileSync('npm', args, { cwd: project, encoding: 'utf8', stdio: 'pipe' });
    expect(output).toMatch(/^added \d+ packages/m);
  });

  it('are refused by name and version when they are asked for', async () => {
    const old = projectWith('old', Object.keys(OLD));
    const [redis, postgres] = await Promise.all([
      open(old, 'redis://x'),
      open(old, 'postgres://x/y?mode=lease'),
    ]);
    expect(redis).toBe(
      'UNSUPPORTED Redis: ioredis 4.28.5 is installed, and 5 or newer is needed: ' +
        'npm install ioredis@latest; redis 4.7.1 is installed, and 5 or newer is needed: ' +
        'npm install redis@latest',
    );
    expect(postgres).toBe(
      'UNSUPPORTED PostgreSQL: pg 7.18.2 is installed, and 8 or newer is needed: npm install pg@latest',
    );
  });

  it('are passed over when another one works', async () => {
    const mixed = projectWith('mixed', ['ioredis', 'pg'], ['redis', 'postgres']);
    const urls = ['redis://127.0.0.1:1', 'postgres://127.0.0.1:1/y?mode=lease'];
    expect(await Promise.all(urls.map((url) => open(mixed, url)))).toEqual(['opened', 'opened']);
  });

  it('redisStore refuses a client of ioredis 4 and of redis 4', async () => {
    const { default: Ioredis } = (await import('ioredis4' as string)) as {
      default: new (options: object) => never;
    };
    const { createClient, createCluster } = (await import('redis4' as string)) as Record<
      string,
      (options: object) => never
    >;
    const refusal = (make: () => never): unknown => {
      try {
        return createLocks(redisStore(make()));
      } catch (error) {
        return `${(error as { code: string }).code} ${(error as Error).message}`;
      }
    };
    expect(refusal(() => new Ioredis({ lazyConnect: true }))).toBe(
      'UNSUPPORTED This client is of ioredis 4, and ioredis 5 or newer is needed: npm install ioredis@latest',
    );
    for (const make of [createClient, createCluster]) {
      expect(refusal(() => make?.({ rootNodes: [{ url: 'redis://x' }] }) as never)).toBe(
        'UNSUPPORTED This client is of redis 4, and redis 5 or newer is needed: npm install redis@latest',
      );
    }
  });

  it('a current client is not refused', async () => {
    await (await openLocks('redis://127.0.0.1:1', { connect: false })).close();
  });
});

describe('the SQLite store on Node.js 20', () => {
  const node = async (): Promise<string> =>
    process.versions.node.startsWith('20.') ? process.execPath : await nodeBinary(20);
  const list = async (project: string): Promise<{ code: unknown; stderr: string }> => {
    const env = { ...process.env, HOLDFAST_URL: '', XDG_STATE_HOME: project };
    try {
      const args = [join(project, 'node_modules/holdfast/dist/cli/main.js'), 'list'];
      execFileSync(await node(), args, { env, stdio: 'pipe' });
      return { code: 0, stderr: '' };
    } catch (error) {
      const { status, stderr } = error as { status: number; stderr: Buffer };
      return { code: status, stderr: String(stderr) };
    }
  };

  it('without a library, the command line exits 69 and names the libraries and HOLDFAST_URL', async () => {
    const { code, stderr } = await list(projectWith('bare', []));
    expect(code).toBe(69);
    expect(stderr).toMatch(/better-sqlite3@12 .*libsql.*HOLDFAST_URL/);
  });

  it('names a better-sqlite3 that is too old, by its version', async () => {
    const { code, stderr } = await list(projectWith('old-sqlite', ['better-sqlite3']));
    expect(code).toBe(69);
    expect(stderr).toContain('better-sqlite3 11.10.0 is installed, and 12 or newer is needed');
  });

  it('names a libsql that is too old, by its version', async () => {
    const { code, stderr } = await list(projectWith('old-libsql', ['libsql']));
    expect(code).toBe(69);
    expect(stderr).toContain('libsql 0.4.7 is installed, and 0.5 or newer is needed');
  });

  it('works with libsql', async () => {
    expect(await list(projectWith('with-libsql', [], ['libsql']))).toEqual({ code: 0, stderr: '' });
  });
});
