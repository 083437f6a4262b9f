import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Locks } from '../../../src/index.ts';
import { AdvisoryStage } from '../../postgres/support/advisory-stage.ts';
import { compiled } from '../../support/process/compiled.ts';
import { type PostgresServer, startPostgres } from '../../support/servers/postgres.ts';
import { later } from '../../support/waiting/eventually.ts';

let server: PostgresServer;
let stage: AdvisoryStage;

beforeAll(async () => {
  server = await startPostgres();
  stage = await AdvisoryStage.on(server);
});
const children: ChildProcess[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await stage?.end();
});
afterAll(() => server?.stop());

interface Seen {
  readonly fence: bigint;
  readonly at: number;
}

/** Several tasks in several processes take one lock repeatedly, sometimes shared. */
async function contend(
  processes: readonly Locks[],
  untilMs: number,
): Promise<{ seen: Seen[]; together: number }> {
  const seen: Seen[] = [];
  let [writers, readers, together] = [0, 0, 0];
  const task = async (locks: Locks, n: number): Promise<void> => {
    for (let round = 0; performance.now() < untilMs; round += 1) {
      const isReader = (round + n) % 5 === 0;
      const lock = locks.readWriteLock('contended')[isReader ? 'read' : 'write'];
      const hold = await lock.acquire({ waitMs: 20_000 });
      if (isReader) readers += 1;
      else writers += 1;
      if (writers > 1 || (writers > 0 && readers > 0)) together += 1;
      if (!isReader) seen.push({ fence: hold.fence, at: performance.now() });
      await sleep(n % 3);
      if (isReader) readers -= 1;
      else writers -= 1;
      await hold.release().catch(() => {});
    }
  };
  await Promise.all(processes.flatMap((locks) => [0, 1, 2].map((n) => task(locks, n))));
  return { seen, together };
}

describe('many processes on one advisory lock', () => {
  it('never two writers, nor a writer with readers, and fences rise with the grants', async () => {
    const processes = [1, 2, 3, 4].map(() => stage.locks());
    const { seen, together } = await contend(processes, performance.now() + 2_500);
    expect(together).toBe(0);
    expect(seen.length).toBeGreaterThan(30);
    const fences = seen.map(({ fence }) => fence);
    expect(fences).toEqual([...fences].sort((a, b) => Number(a - b)));
    // Nothing is left but what shows that a session is ours.
    await expect
      .poll(async () => (await stage.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'")).length)
      .toBe(4);
  }, 30_000);

  it('row 40: sessions that end at random lose holds, but fences rise and tasks continue', async () => {
    const processes = [1, 2, 3, 4].map(() => stage.locks());
    const endMs = performance.now() + 3_000;
    const nemesis = (async () => {
      while (performance.now() < endMs - 200) {
        await sleep(100);
        await stage.query(
          `SELECT pg_terminate_backend(pid) FROM pg_locks
            WHERE locktype = 'advisory' ORDER BY random() LIMIT 1`,
        );
      }
    })();
    const [{ seen }] = await Promise.all([contend(processes, endMs), nemesis]);
    expect(seen.length).toBeGreaterThan(20);
    expect(new Set(seen.map(({ fence }) => fence)).size).toBe(seen.length);
    await expect
      .poll(async () => (await stage.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'")).length)
      .toBeLessThanOrEqual(4);
  }, 60_000);

  it('row 41: a process that is killed frees its locks at once, one that is paused keeps them', async () => {
    const start = async (name: string) => {
      const script = fileURLToPath(new URL('./support/advisory-holder.ts', import.meta.url));
      const child = fork(compiled(script), [stage.url, name], { execArgv: [] });
      children.push(child);
      await once(child, 'message');
      return child;
    };
    const [killed, stopped] = await Promise.all([start('killed'), start('stopped')]);
    const locks = stage.locks();
    const next = later(locks.mutex('killed').acquire());
    stopped.kill('SIGSTOP');
    killed.kill('SIGKILL');
    (await next).assertHeld();
    expect(await locks.mutex('stopped').tryAcquire()).toBeNull();
    const exited = once(stopped, 'exit');
    stopped.kill('SIGKILL');
    await exited;
    (await locks.mutex('stopped').acquire()).assertHeld();
  }, 60_000);
});
