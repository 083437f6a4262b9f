import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { OURS } from '../../src/stores/postgres/advisory/lock-key.ts';
import { outputOf } from '../support/process/close-and-exit.ts';
import { AdvisoryStage } from './support/advisory-stage.ts';

const PROGRAM = fileURLToPath(new URL('./support/advisory-program.ts', import.meta.url));

let stage: AdvisoryStage;
beforeAll(async () => {
  stage = await AdvisoryStage.start();
});
afterEach(() => stage?.end());
afterAll(() => stage?.stop());

const run = (library: string, task: string, name: string): Promise<string> =>
  outputOf(PROGRAM, [stage.url, library, task, name]);

const ENDED = 'done\n';

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
