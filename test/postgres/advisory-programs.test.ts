import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { OURS } from '../../src/stores/postgres/advisory/lock-key.ts';
import { compiled } from '../support/process/compiled.ts';
import { type PostgresServer, startSharedPostgres } from '../support/servers/postgres.ts';
import { AdvisoryStage } from './support/advisory-stage.ts';

const PROGRAM = fileURLToPath(new URL('./support/advisory-program.ts', import.meta.url));

let server: PostgresServer;
let stage: AdvisoryStage;
beforeAll(async () => {
  server = await startSharedPostgres();
  stage = await AdvisoryStage.on(server);
}, 120_000);
afterEach(() => stage?.end());
afterAll(() => server?.stop());

/** Runs a program to its end. Resolves to what it said and how it ended. */
async function run(library: string, task: string, name: string): Promise<string> {
  const child = spawn(process.execPath, [compiled(PROGRAM), stage.url, library, task, name], {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  let output = '';
  child.stdout.on('data', (data: Buffer) => {
    output += data.toString();
  });
  const [code, signal] = await once(child, 'close');
  return `${output}${code ?? signal}`;
}

const ENDED = 'done\n0';

describe.each(['pg.Pool', 'postgres.js'])('a program runs to its end, under %s', (library) => {
  it('four copies that take one mutex twenty times each', async () => {
    const copies = Array.from({ length: 4 }, () => run(library, 'twenty', 'twenty'));
    expect(await Promise.all(copies)).toEqual(copies.map(() => ENDED));
  }, 60_000);

  it.each(['claim', 'renew', 'release', 'read', 'evict', 'close'])(
    '%s, while a session of ours that does not answer holds the lock',
    async (task) => {
      const silent = await stage.foreign();
      await silent.query('SELECT pg_advisory_lock_shared($1)', [OURS]);
      await silent.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [task]);
      expect(await run(library, task, task)).toBe(ENDED);
    },
    60_000,
  );
});
