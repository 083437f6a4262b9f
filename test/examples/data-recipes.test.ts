import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { compiled } from '../support/process/compiled.ts';
import { startProgram, stopPrograms } from '../support/process/program.ts';
import { later } from '../support/waiting/eventually.ts';
import {
  compileExamples,
  eventually,
  exampleFile,
  linesOf,
  runExample,
  runTogether,
  startExample,
} from './support/example.ts';
import { type ExampleRedis, startExampleRedis } from './support/redis.ts';
import { startService } from './support/service.ts';

const RUNTIME = fileURLToPath(new URL('./support/serverless-runtime.ts', import.meta.url));
const folder = temporaryFolder();
let redis: ExampleRedis;

beforeAll(async () => {
  compileExamples('cache-refresh', 'config-reload', 'api-limits', 'redis', 'two-accounts');
  compiled(RUNTIME);
  redis = await startExampleRedis();
});
afterAll(async () => {
  await stopPrograms();
  await redis?.[Symbol.asyncDispose]();
  folder.remove();
});

/** A service that answers on request of the test, with the number of the answer. */
function patientService() {
  const waiting: (() => void)[] = [];
  let answers = 0;
  const service = startService((_request, response) => {
    answers += 1;
    const text = `v${answers}`;
    waiting.push(() => void response.end(text));
  });
  const answer = (): void => {
    for (const each of waiting.splice(0)) each();
  };
  return { service, calls: () => answers, answer };
}

describe.concurrent('examples/cache-refresh.ts', () => {
  it('lets one of twenty callers load; the others wait for it, or get the stale value', async () => {
    const origin = patientService();
    await using service = await origin.service;
    // Stale as soon as it is stored.
    const start = () => startExample('cache-refresh', [service.url], { ...redis.env, FRESH_MS: '1' });
    const count = (value: string, programs: readonly { stdout: string }[]): number =>
      programs.flatMap(({ stdout }) => stdout.split('\n')).filter((line) => line === value).length;

    const cold = [start(), start()];
    const waiters = async (): Promise<number> => (await redis.locks.inspect('fill:price')).waiters.length;
    await eventually('the others wait', async () => (await waiters()) === 19);
    await eventually('one loads', () => origin.calls() === 1);
    origin.answer();
    for (const program of cold) await linesOf(program);
    expect(count('v1', cold)).toBe(20);
    expect(origin.calls()).toBe(1);

    const stale = [start(), start()];
    await eventually('the others have the stale value', () => count('v1', stale) === 19);
    await eventually('one loads', () => origin.calls() === 2);
    origin.answer();
    for (const program of stale) await linesOf(program);
    expect(count('v2', stale)).toBe(1);
    expect(origin.calls()).toBe(2);
  });
});

describe.concurrent('examples/config-reload.ts', () => {
  it('shows no reader one file of before a change and one of after it', async () => {
    for (const file of ['routes.txt', 'limits.txt']) writeFileSync(folder.file(file), '0');
    const start = (role: string) =>
      startProgram(compiled(exampleFile('config-reload')), [role, '15'], { cwd: folder.path });
    const readers = ['read', 'read'].map(start);
    for (const reader of readers) await reader.printed('reading');
    await linesOf(start('write'));
    for (const reader of readers) {
      const { seen, torn } = JSON.parse((await linesOf(reader)).at(-1) ?? '');
      expect(torn).toBe(0);
      expect(seen).toBeGreaterThan(0);
    }
  });
});

describe.concurrent('examples/api-limits.ts', () => {
  it('keeps to three calls at once and six in a window, over two processes', async () => {
    let running = 0;
    let most = 0;
    await using service = await startService(async (_request, response) => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setTimeout(resolve, 100));
      running -= 1;
      response.end();
    });
    const startMs = performance.now();
    const more = { API_URL: service.url, PER_WINDOW: '6', WINDOW_MS: '3000' };
    const pending = later(runTogether(2, 'api-limits', ['9'], { ...redis.env, ...more }));
    const waiters = async () => (await redis.locks.inspect('api', { use: 'rateLimit' })).waiters.length;
    await eventually('calls wait for the next window', async () => (await waiters()) > 0);
    const lines = (await pending).flat();
    expect(lines.join(' ').split(' ')).toEqual(Array.from({ length: 18 }, () => '200'));
    expect(most).toBeLessThanOrEqual(3);
    expect(most).toBeGreaterThan(1);
    // The last six could start two windows after the first six at the earliest.
    expect(performance.now() - startMs).toBeGreaterThan(6_000);
  });
});

describe.concurrent('examples/redis.ts', () => {
  it('bills the customers, one after the other for each', async () => {
    const billed = await runExample('redis', [], redis.env);
    expect(billed.map((line) => line.split(',')[0]).sort()).toEqual([
      'billing ada',
      'billing ada',
      'billing grace',
    ]);
    expect(await redis.client.mget('invoice:ada', 'invoice:grace')).toEqual(['paid', 'paid']);
  });
});

describe.concurrent('examples/two-accounts.ts', () => {
  it('loses no money when three processes transfer in both directions', async () => {
    await redis.client.mset('account:ada', 100, 'account:bob', 100);
    await runTogether(3, 'two-accounts', ['20'], redis.env);
    // Each process: ten times 5 to bob, and ten times 3 back.
    expect(await redis.client.mget('account:ada', 'account:bob')).toEqual(['40', '160']);
  });
});

describe.concurrent('examples/serverless.ts', () => {
  it('leaves nothing running, and refuses an invocation that was frozen past its TTL', async () => {
    const labels = patientService();
    await using service = await labels.service;
    const start = (ttlMs: number) =>
      startProgram(compiled(RUNTIME), [], {
        env: { ...redis.env, LABELS_URL: service.url, TTL_MS: `${ttlMs}` },
      });
    const frozen = start(4_000);
    const other = start(60_000);
    other.child.stdin?.write('1\n');
    await eventually('the first label is asked for', () => labels.calls() === 1);
    labels.answer();
    await other.printed('1: 200, 0 timers\n');
    expect((await redis.locks.inspect('order:1')).holders).toEqual([]);

    const isFree = async (name: string) => (await redis.locks.inspect(name)).holders.length === 0;
    frozen.child.stdin?.write('2\n');
    await eventually('the second label is asked for', () => labels.calls() === 2);
    frozen.child.kill('SIGSTOP');
    labels.answer();
    await eventually('the lock is free', () => isFree('order:2'));
    other.child.stdin?.write('2\n');
    await eventually('the third label is asked for', () => labels.calls() === 3);
    labels.answer();
    await other.printed('2: 200, 0 timers\n');
    frozen.child.kill('SIGCONT');
    await frozen.printed('2: 409, 0 timers\n');
    expect(await redis.client.get('label:2')).toBe('v3');

    // Not frozen, only slow: nothing renews the lock.
    frozen.child.stdin?.write('3\n');
    await eventually('the fourth label is asked for', () => labels.calls() === 4);
    await eventually('the lock is free', () => isFree('order:3'));
    labels.answer();
    await frozen.printed('3: HOLD_LOST, 0 timers\n');
  });
});
