import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { openLocks } from '../../src/index.ts';
import type { Backend } from '../../src/torture/backends/backend.ts';
import { startBackend } from '../../src/torture/backends/start-backend.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { holdfast, start, stopAll } from './support/holdfast.ts';
import { killWhileItRuns } from './support/killed.ts';

const folder = temporaryFolder();
let redis: Backend;
let env: NodeJS.ProcessEnv;
beforeAll(async () => {
  redis = await startBackend('redis');
  env = { HOLDFAST_URL: redis.url };
});
afterEach(stopAll);
afterAll(async () => {
  folder.remove();
  await redis.stop();
});

/** The trap comes first: a signal may follow the first line at once. */
const LEAD =
  'trap "echo ended; exit 5" TERM; echo leads $HOLDFAST_NAME $HOLDFAST_FENCE; while :; do sleep 0.05; done';

describe('holdfast elect', () => {
  it('runs the command in one process at a time, and in the next when the first is ended', async () => {
    const first = await start(['elect', 'a', '--', 'sh', '-c', LEAD], env);
    await first.printed('leads a');
    const second = await start(['elect', 'a', '--', 'sh', '-c', LEAD], env);
    await eventually('waits', async () =>
      (await holdfast(['show', 'a', '--json'], env)).stdout.includes(`:${second.child.pid}:`),
    );
    expect(second.stdout).toBe('');
    first.child.kill('SIGTERM');
    expect(await first.result()).toMatchObject({ code: 5, stdout: expect.stringContaining('ended') });
    await second.printed('leads a');
    const fenceOf = ({ stdout }: { stdout: string }): bigint =>
      BigInt(/leads a (\d+)/.exec(stdout)?.[1] ?? 0);
    expect(fenceOf(second)).toBeGreaterThan(fenceOf(first));
  });

  it.each([
    ['success', ['true'], 0],
    ['failure', ['sh', '-c', 'exit 7'], 7],
    ['signal', ['sh', '-c', 'kill -KILL $$'], 137],
    ['absence', ['no-such-command'], 127],
  ])('the command’s own exit resigns and is passed on: %s', async (_, command, code) => {
    expect(await holdfast(['elect', 'b', '--', ...command], env)).toMatchObject({ code });
    expect(await holdfast(['run', 'b', '--no-wait', '--', 'true'], env)).toMatchObject({ code: 0 });
  });

  it('ends the command when its term is lost, and runs it again in the next', async () => {
    const leader = await start(['elect', 'c', '--ttl', '6s', '--', 'sh', '-c', LEAD], env);
    await leader.printed('leads c');
    await using locks = await openLocks(redis.url);
    const { holders } = await locks.inspect('c');
    expect(await locks.evict('c', { id: holders[0]?.id ?? '' })).toBe(true);
    await eventually('leads again', () => leader.stdout.split('leads c').length === 3);
    expect(leader.stdout).toMatch(/^leads c \d+\nended\nleads c \d+\n$/);
    leader.child.kill('SIGTERM');
    expect(await leader.result()).toMatchObject({ code: 5 });
  });

  it('gets through an outage of the store: it ends the command in time, and leads again', async () => {
    const { url, proxies } = await redis.route();
    const leader = await start(['elect', 'd', '--ttl', '4s', '--', 'sh', '-c', LEAD], { HOLDFAST_URL: url });
    await leader.printed('leads d');
    for (const proxy of proxies) proxy.drop('both');
    await leader.printed('ended');
    for (const proxy of proxies) proxy.pass();
    await eventually('leads again', () => /ended\nleads d/.test(leader.stdout));
    leader.child.kill('SIGTERM');
    expect(await leader.result()).toMatchObject({ code: 5 });
  });

  it('stays a candidate when the store fails just after it was elected', async () => {
    const { url, proxies } = await redis.route();
    const first = await start(['elect', 'g', '--', 'sh', '-c', LEAD], env);
    await first.printed('leads g');
    const second = await start(['elect', 'g', '--', 'sh', '-c', LEAD], { HOLDFAST_URL: url });
    await eventually('waits', async () =>
      (await holdfast(['show', 'g', '--json'], env)).stdout.includes(`:${second.child.pid}:`),
    );
    // The pushed grant arrives, and what the second process sends does not.
    for (const proxy of proxies) proxy.drop('toServer');
    first.child.kill('SIGTERM');
    expect(await first.result()).toMatchObject({ code: 5 });
    await sleep(3_000);
    for (const proxy of proxies) proxy.pass();
    await second.printed('leads g');
    second.child.kill('SIGTERM');
    expect(await second.result()).toMatchObject({ code: 5 });
  });

  it('gives up its candidature when it is asked to end while it waits', async () => {
    const first = await start(['elect', 'e', '--', 'sh', '-c', LEAD], env);
    await first.printed('leads e');
    const second = await start(['elect', 'e', '--', 'sh', '-c', LEAD], env);
    await eventually('waits', async () =>
      (await holdfast(['show', 'e', '--json'], env)).stdout.includes(`:${second.child.pid}:`),
    );
    second.child.kill('SIGINT');
    expect(await second.result()).toMatchObject({ code: 130, stdout: '' });
  });

  it('has the guard of run: when holdfast is killed, the command does not continue', async () => {
    await killWhileItRuns(['elect', 'f'], env, folder.file('pid'));
  });

  it.each([
    ['no command', ['elect', 'x']],
    ['a wait', ['elect', 'x', '--wait', '3s', '--', 'true']],
    ['options of the command without --', ['elect', 'x', 'ls', '-l']],
    ['an empty name', ['elect', '', '--', 'true']],
  ])('gives 64 for %s', async (_, args) => {
    expect(await holdfast(args, env)).toMatchObject({ code: 64, stdout: '' });
  });
});
