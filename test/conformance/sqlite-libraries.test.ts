import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { nodeBinary } from '../sqlite/support/nodes.ts';
import { startWorker, stopWorkers } from '../sqlite/support/workers.ts';

const run = promisify(execFile);
const file = fileURLToPath(new URL('../sqlite/support/conformance-run.ts', import.meta.url));
const folder = temporaryFolder();
const nodes = new Map<number, string>();

beforeAll(async () => {
  const install = async (major: number): Promise<void> => void nodes.set(major, await nodeBinary(major));
  // Most of it is waiting for the network.
  await Promise.all([22, 24, 26].map(install));
}, 360_000);
afterEach(stopWorkers);
afterAll(() => folder.remove());

describe('sqlite meets the contract under every library and version of Node.js', () => {
  it.each([
    [22, 'node:sqlite'],
    [24, 'node:sqlite'],
    [26, 'node:sqlite'],
    [22, 'better-sqlite3'],
    [26, 'better-sqlite3'],
    [24, 'libsql'],
  ])(
    'Node.js %d, %s',
    async (major, library) => {
      const { stdout } = await run(nodes.get(major) ?? '', ['--no-warnings', file, library], {
        timeout: 100_000,
      });
      const result = JSON.parse(stdout) as { node: string; passed: number; failures: string[] };
      expect(result.failures).toEqual([]);
      expect(result.node).toMatch(new RegExp(`^v${major}\\.`));
      expect(result.passed).toBeGreaterThan(40);
    },
    110_000,
  );

  it('no warning of the runtime reaches the user', async () => {
    const entry = new URL('../../src/stores/sqlite/index.ts', import.meta.url);
    const script = `import { sqliteStore } from '${entry}'; await sqliteStore(':memory:').close();`;
    const { stderr } = await run(nodes.get(22) ?? '', ['--input-type=module', '-e', script], {
      timeout: 60_000,
    });
    expect(stderr).not.toMatch(/SQLite/);
  }, 70_000);

  it.each([
    [22, 'node:sqlite'],
    [24, 'better-sqlite3'],
  ])(
    'Node.js %d, %s reads a fence that no number of JavaScript can hold',
    async (major, library) => {
      const at = (path: string) => new URL(path, import.meta.url);
      const script = `import { sqliteStore } from '${at('../../src/stores/sqlite/index.ts')}';
      import { openWith } from '${at('../sqlite/support/libraries.ts')}';
      const store = sqliteStore(openWith('${library}', ':memory:'));
      const claim = { name: 'x', id: 'a', mode: { kind: 'exclusive' }, ttlMs: 60_000, wait: false, note: '' };
      await store.claim({ ...claim, fenceAbove: 2n ** 60n });
      console.log((await store.read('x'))[0].fence.toString());
      await store.close();`;
      const args = ['--no-warnings', '--input-type=module', '-e', script];
      const { stdout } = await run(nodes.get(major) ?? '', args, { timeout: 60_000 });
      expect(stdout.trim()).toBe(`${2n ** 60n + 1n}`);
    },
    70_000,
  );

  it('processes with different libraries exclude each other on one file', async () => {
    const path = folder.file('mixed.db');
    const number = folder.file('number');
    writeFileSync(number, '0');
    const kinds = [
      { library: 'libsql' },
      { library: 'node:sqlite', node: nodes.get(22) ?? '' },
      { library: 'node:sqlite', node: nodes.get(26) ?? '' },
      { library: 'better-sqlite3', node: nodes.get(24) ?? '' },
    ];
    const workers = await Promise.all(
      kinds.map((kind) => startWorker(path, ['count', 'number', number, 60], kind)),
    );
    await Promise.all(workers.map((worker) => worker.said('counted', 60_000)));
    expect(readFileSync(number, 'utf8')).toBe('240');
  }, 90_000);
});
