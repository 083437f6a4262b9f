import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLocks, type Locks } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { compiled } from '../support/process/compiled.ts';
import { type Program, startProgram, stopPrograms } from '../support/process/program.ts';
import { compileExamples, eventually, exampleFile } from './support/example.ts';
import { compileNestjs } from './support/legacy-decorators.ts';

let server: Server;
let nestjs: string;

beforeAll(async () => {
  compileExamples('express', 'fastify', 'node-cron');
  nestjs = compiled(compileNestjs());
  server = await startRedis();
});
afterAll(async () => {
  await stopPrograms();
  await server?.stop();
});

/** Starts one example with a database of its own, so that the examples may use the same names. */
function environment(db: number): { env: NodeJS.ProcessEnv; client: Redis; locks: Locks } & AsyncDisposable {
  const REDIS_URL = `${server.url}/${db}`;
  const own = new Redis(REDIS_URL);
  // Compiling an example blocks this process.
  const locks = createLocks(redisStore(own), { commandMs: 30_000 });
  return {
    env: { REDIS_URL, REPORT_CRON: '* * * * * *' },
    client: own,
    locks,
    async [Symbol.asyncDispose]() {
      await locks.close();
      own.disconnect();
    },
  };
}

/** Starts instances of a service, and gives the address of each. */
async function startInstances(
  count: number,
  file: string,
  env: NodeJS.ProcessEnv,
): Promise<[Program[], string[]]> {
  const instances = Array.from({ length: count }, () => startProgram(file, [], { env }));
  for (const each of instances) await each.printed('http://');
  return [instances, instances.map((each) => /http:\S+/.exec(each.stdout)?.[0] ?? '')];
}

const post = (url: string): Promise<Response> => fetch(url, { method: 'POST' });

/** Adds ten items to one basket, through both instances at once. */
async function addItems(urls: readonly string[]): Promise<number[]> {
  const answers = Array.from({ length: 10 }, async (_, n) => {
    const response = await post(`${urls[n % 2]}/baskets/7/items`);
    return ((await response.json()) as { items: number }).items;
  });
  return (await Promise.all(answers)).sort((a, b) => a - b);
}
const ONE_TO_TEN = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/** What the schedulers of NestJS and node-cron print when a busy machine runs a job late. */
const LATE_JOB = /^(?:\[Cron\] Missed execution deadline by |.*\[NODE-CRON\].*missed execution at ).*\n/gm;

async function end(instances: readonly Program[]): Promise<void> {
  for (const { child } of instances) child.kill('SIGTERM');
  for (const each of instances) {
    const { code, stderr } = await each.result();
    expect({ code, stderr: stderr.replace(LATE_JOB, '') }).toEqual({ code: 0, stderr: '' });
  }
}

describe.concurrent.each([
  ['express', 1],
  ['fastify', 2],
] as const)('examples/%s.ts', (name, db) => {
  it('runs a handler under its lock in two instances', async () => {
    await using world = environment(db);
    const env = { ...world.env, WAIT_MS: '60000' };
    const [instances, urls] = await startInstances(2, compiled(exampleFile(name)), env);
    expect(await addItems(urls)).toEqual(ONE_TO_TEN);
    expect((await world.locks.inspect('basket:7')).holders).toEqual([]);
    await end(instances);
  });

  it('answers 423 while the lock is held, and holds it while a handler works without a client', async () => {
    await using world = environment(db + 10);
    const env = { ...world.env, WAIT_MS: '0', WORK_MS: '6000' };
    const [instances, [url]] = await startInstances(1, compiled(exampleFile(name)), env);
    const isHeld = async () => (await world.locks.inspect('basket:7')).holders.length > 0;
    const leaves = new AbortController();
    fetch(`${url}/baskets/7/items`, { method: 'POST', signal: leaves.signal }).catch(() => {});
    await eventually('the handler works', isHeld);
    leaves.abort();
    await world.locks.withLock('basket:8', async () => {
      const refused = await post(`${url}/baskets/8/items`);
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([423, '1']);
    });
    await eventually('the lock is free', async () => !(await isHeld()));
    expect(await world.client.get('basket:7')).toBe('1');
    await end(instances);
  });
});

/** The reports that were made: at least three, and none at the same time as another. */
async function reportsOf(instances: readonly Program[]): Promise<string[]> {
  const reports = () => instances.flatMap(({ stdout }) => stdout.match(/^.*report.*$/gm) ?? []);
  await eventually('three reports', () => reports().length >= 3);
  return reports();
}

describe.concurrent('examples/nestjs', () => {
  it('keeps the metadata of a route and of @Cron, and runs both under a lock in two instances', async () => {
    await using world = environment(3);
    const [instances, urls] = await startInstances(2, nestjs, world.env);
    expect(await addItems(urls)).toEqual(ONE_TO_TEN);
    expect(new Set(await reportsOf(instances))).toEqual(new Set(['report']));
    await end(instances);
  });
});

describe.concurrent('examples/node-cron.ts', () => {
  it('runs each fire of a task in one of two instances', async () => {
    await using world = environment(4);
    const start = () => startProgram(compiled(exampleFile('node-cron')), [], { env: world.env });
    const instances = [start(), start()];
    for (const each of instances) await each.printed('scheduled');
    await reportsOf(instances);
    await end(instances);
    const reports = await reportsOf(instances);
    expect(new Set(reports).size).toBe(reports.length);
    for await (const { done } of world.locks.list('cron:nightly-report:')) expect(done).toBe(true);
  });
});
