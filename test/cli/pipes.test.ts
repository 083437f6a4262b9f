import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createLocks, type Locks, type LockView } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { pathWithHoldfast } from './support/shell.ts';

const PIPE_BYTES = 65_536;
/** Their JSON is several times as long as what a pipe takes. */
const LOCKS = 600;

const folder = temporaryFolder();
const path = folder.file('locks.db');
const env = { HOLDFAST_URL: `sqlite:${path}` };
let locks: Locks;
beforeAll(async () => {
  locks = createLocks(sqliteStore(path));
  const names = Array.from({ length: LOCKS }, (_, n) => `lock ${n}`);
  await Promise.all(names.map((name) => locks.mutex(name).acquire({ ttlMs: 3_600_000 })));
});
afterAll(async () => {
  await locks.close({ drainMs: 0 });
  folder.remove();
});

/** Runs the command line in a pipe. Its reader takes one byte, and the rest only after a while. */
async function readSlowly(command: string): Promise<string> {
  const reader = '{ head -c 1; sleep 0.5; cat; }';
  const options = {
    env: { ...process.env, ...env, PATH: await pathWithHoldfast() },
    maxBuffer: 100 * PIPE_BYTES,
  };
  const line = `set -o pipefail; ${command} | ${reader}`;
  return (await promisify(execFile)('bash', ['-c', line], options)).stdout;
}

describe('a pipe with a slow reader', () => {
  it('gets all JSON of list', async () => {
    const json = await readSlowly('holdfast list --json');
    expect(json.length).toBeGreaterThan(PIPE_BYTES);
    expect(JSON.parse(json) as LockView[]).toHaveLength(LOCKS);
  });

  it('gets every line that evict prints to it', async () => {
    const name = 'x'.repeat(400);
    const semaphore = locks.semaphore(name, { permits: LOCKS });
    await Promise.all(Array.from({ length: LOCKS }, () => semaphore.acquire()));
    const lines = await readSlowly(`holdfast evict ${name} --all --yes`);
    expect(lines.length).toBeGreaterThan(PIPE_BYTES);
    expect(lines.match(/^Took .* away from claim .*\n/gm)).toHaveLength(LOCKS);
  });

  it('does not keep a watch that a signal ends', async () => {
    // The reader continues for as long as the standard input is open.
    const line = 'exec 3<&0; exec holdfast watch --json < /dev/null > >(head -c 1 >&2; read -r _ <&3)';
    const shellEnv = { ...process.env, ...env, PATH: await pathWithHoldfast() };
    const child = spawn('bash', ['-c', line], { env: shellEnv, stdio: ['pipe', 'ignore', 'pipe'] });
    onTestFinished(() => void child.stdin.end());
    const exited = once(child, 'exit');
    await once(child.stderr, 'data');
    child.kill('SIGTERM');
    expect(await exited).toEqual([143, null]);
  });
});
