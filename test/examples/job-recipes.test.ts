import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { startProgram, stopPrograms } from '../support/process/program.ts';
import {
  compileExamples,
  eventually,
  exampleFile,
  linesOf,
  runExample,
  runTogether,
  startExample,
} from './support/example.ts';
import { pathWithHoldfast } from './support/holdfast-on-path.ts';
import { type ExampleRedis, startExampleRedis } from './support/redis.ts';

const folder = temporaryFolder();
let PATH: string;
let redis: ExampleRedis;

beforeAll(async () => {
  compileExamples('nightly-schedule', 'nightly-once', 'customer-jobs', 'leader', 'clean-shutdown');
  PATH = await pathWithHoldfast(folder);
  redis = await startExampleRedis();
});
afterAll(async () => {
  await stopPrograms();
  await redis?.[Symbol.asyncDispose]();
  folder.remove();
});

describe.concurrent('examples/nightly-schedule.ts', () => {
  it('makes the report of each slot once, in two instances', async () => {
    const start = () => startExample('nightly-schedule', [], { ...redis.env, REPORT_CRON: '* * * * * *' });
    const instances = [start(), start()];
    const reports = () => instances.flatMap(({ stdout }) => stdout.match(/^report of .*$/gm) ?? []);
    for (const instance of instances) await instance.printed('next report at ');
    await eventually('three reports', () => reports().length >= 3);
    for (const { child } of instances) child.kill('SIGTERM');
    for (const instance of instances) expect(await instance.result()).toMatchObject({ code: 0, stderr: '' });
    expect(new Set(reports()).size).toBe(reports().length);
  });
});

describe.concurrent('examples/nightly-once.ts', () => {
  it('makes the report of a day on one host, and tries again after a failure', async () => {
    const reports = folder.file('reports');
    const report = `${reports}/report-2026-11-16.txt`;
    const args = [reports, '2026-11-16'];
    // Without its folder a report cannot be made: the run fails, and is not remembered.
    await expect(runExample('nightly-once', args, redis.env)).rejects.toThrow('ENOENT');
    mkdirSync(reports);
    const said = (await runTogether(3, 'nightly-once', args, redis.env)).flat();
    expect(said.filter((line) => line === 'made')).toHaveLength(1);
    const made = readFileSync(report, 'utf8');
    expect(await runExample('nightly-once', args, redis.env)).toEqual(['done']);
    expect(readFileSync(report, 'utf8')).toBe(made);
    expect(await runExample('nightly-once', [reports, '2026-11-17'], redis.env)).toEqual(['made']);
    expect(existsSync(`${reports}/report-2026-11-17.txt`)).toBe(true);
  });
});

describe.concurrent('examples/customer-jobs.ts', () => {
  it('queues a job once, and runs one job of a customer at a time in all workers', async () => {
    const jobs = ['ada', 'bob'].flatMap((customer) =>
      [1, 2, 3, 4].map((n) => `${customer}:invoice-${n}:${10 ** n}`),
    );
    await runExample('customer-jobs', ['add', ...jobs, ...jobs], redis.env);
    expect(await redis.client.zcard('bull:points:completed')).toBe(0);
    const workers = [1, 2].map(() => startExample('customer-jobs', ['work'], redis.env));
    await eventually(
      'all jobs are done',
      async () => (await redis.client.zcard('bull:points:completed')) === 8,
    );
    expect(await redis.client.mget('points:ada', 'points:bob')).toEqual(['11110', '11110']);
    for (const worker of workers) await worker.printed('working');
    for (const { child } of workers) child.kill('SIGTERM');
    for (const worker of workers) expect(await worker.result()).toMatchObject({ code: 0, stderr: '' });
  });
});

describe.concurrent('examples/leader.ts', () => {
  it('has one leader, and another when that one is paused or asked to end', async () => {
    const pods = new Map(
      ['a', 'b', 'c'].map((name) => [
        name,
        startExample('leader', [], { ...redis.env, POD_NAME: name, TTL_MS: '6000' }),
      ]),
    );
    const heartbeats = async (): Promise<string[]> => await redis.client.lrange('heartbeats', 0, -1);
    const latest = async (): Promise<string> => (await heartbeats()).at(-1)?.split(' ')[0] ?? '';
    const other = async (than: string): Promise<string> => {
      await eventually('another leads', async () => !['', than].includes(await latest()));
      return await latest();
    };
    const first = await other('');
    expect((await redis.locks.election('heartbeats').leader())?.owner).toBe(first);
    pods.get(first)?.child.kill('SIGSTOP');
    const second = await other(first);
    pods.get(first)?.child.kill('SIGCONT');
    await eventually('it follows', () => /lost: [\s\S]*follows/.test(pods.get(first)?.stdout ?? ''));
    pods.get(second)?.child.kill('SIGTERM');
    expect(await pods.get(second)?.result()).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/elected[\s\S]*stopped\n$/),
    });
    await other(second);
    // Every heartbeat was accepted in the order of the terms.
    const fences = (await heartbeats()).map((line) => BigInt(line.split(' ')[1] ?? 0));
    expect(fences.every((fence, n) => n === 0 || fence >= (fences[n - 1] ?? 0n))).toBe(true);
  });
});

describe.concurrent('examples/clean-shutdown.ts', () => {
  async function interrupt(job: string, drainMs: number): Promise<string> {
    const service = startExample('clean-shutdown', [], { ...redis.env, DRAIN_MS: `${drainMs}` });
    await service.printed('http://');
    const response = await fetch(`${service.stdout.trim()}/${job}`, { method: 'POST' });
    const name = job.split('?')[0] ?? '';
    expect((await redis.locks.inspect(name)).holders).toHaveLength(1);
    service.child.kill('SIGTERM');
    const body = await response.text();
    expect(await linesOf(service)).toContain('closed');
    // Its TTL is a minute: the lock was released.
    expect((await redis.locks.inspect(name)).holders).toEqual([]);
    return body;
  }

  it('lets a running job end, and leaves no lock behind', async () => {
    expect(await interrupt('short?ms=8000', 60_000)).toBe('done');
  });

  it('interrupts a job that does not end in time, and leaves no lock behind', async () => {
    expect(await interrupt('long?ms=600000', 100)).toBe('interrupted');
  });
});

describe.concurrent('examples/deploy.sh', () => {
  it('runs one deployment at a time; the next one waits, or gives up and names the holder', async () => {
    const log = folder.file('log');
    const steps = 'echo begin >> log; while [ ! -e go ]; do sleep 0.05; done; echo end >> log';
    writeFileSync(folder.file('deploy-steps.sh'), `#!/bin/sh\n${steps}\n`, { mode: 0o755 });
    const deploy = (more: NodeJS.ProcessEnv = {}) =>
      startProgram(exampleFile('deploy.sh'), ['shop'], {
        env: { PATH, HOLDFAST_URL: redis.url, ...more },
        cwd: folder.path,
        executable: 'sh',
      });
    const first = deploy();
    await eventually('the first begins', () => existsSync(log));
    const [holder] = (await redis.locks.inspect('deploy:shop')).holders;
    const impatient = await deploy({ DEPLOY_WAIT: '2s' }).result();
    expect(impatient).toMatchObject({ code: 75, stderr: expect.stringContaining(`${holder?.owner}`) });
    const second = deploy();
    const waiters = async (): Promise<number> => (await redis.locks.inspect('deploy:shop')).waiters.length;
    await eventually('the second waits', async () => (await waiters()) === 1);
    expect(readFileSync(log, 'utf8')).toBe('begin\n');
    writeFileSync(folder.file('go'), '');
    for (const deployment of [first, second]) expect((await deployment.result()).code).toBe(0);
    expect(readFileSync(log, 'utf8')).toBe('begin\nend\nbegin\nend\n');
  });
});
