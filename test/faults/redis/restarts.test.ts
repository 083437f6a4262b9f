import { existsSync, readdirSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { type Stage, startStage } from '../../redis/support/stage.ts';
import { eventually, renewals } from '../../support/patience.ts';
import { LIBRARIES } from '../../support/redis-clients.ts';
import { startRedis } from '../../support/servers/redis.ts';

const stages: Stage[] = [];
const stageWith = async (args: readonly string[] = []): Promise<Stage> => {
  const stage = await startStage({ args });
  stages.push(stage);
  return stage;
};
afterEach(async () => {
  for (const stage of stages.splice(0)) await stage[Symbol.asyncDispose]();
});

describe.each(LIBRARIES)('a server that is killed and comes back, under %s', (library) => {
  it('row 28: without persistence, the same lock is given again with a greater fence, and the holder is told', async () => {
    const { server, ...stage } = await stageWith();
    const locks = await stage.locks(library, server.url, { ttlMs: 15_000, renewEveryMs: 500 });
    const hold = await locks.mutex('x').acquire();
    server.kill('SIGKILL');
    await server.exited();
    await server.start();
    const next = await locks.mutex('x').acquire();
    expect(next.fence).toBeGreaterThan(hold.fence);
    await eventually('the first holder is told', () => hold.signal.aborted, 14_000);
    expect(hold.signal.reason).toMatchObject({ how: 'taken' });
    next.assertHeld();
    await next.release();
  });

  it('row 22: with persistence, the hold outlives the restart', async () => {
    const { server, ...stage } = await stageWith(['--appendonly', 'yes', '--appendfsync', 'always']);
    const locks = await stage.locks(library, server.url, { ttlMs: 15_000, renewEveryMs: 300 });
    const hold = await locks.mutex('x').acquire();
    server.kill('SIGKILL');
    await server.exited();
    await server.start();
    await renewals(locks, 2);
    hold.assertHeld();
    expect(await hold.release()).toBe(true);
  });
});

/** Where Redis 7 keeps its append-only file; before that it was one file. */
function appendOnlyFile(dir: string): string {
  const folder = join(dir, 'appendonlydir');
  if (!existsSync(folder)) return join(dir, 'appendonly.aof');
  const name = readdirSync(folder).find((file) => file.endsWith('.incr.aof'));
  if (name === undefined) throw new Error('no append-only file');
  return join(folder, name);
}

it('row 29: writes that were acknowledged and then lost do not bring a fence back', async () => {
  const { server, ...stage } = await stageWith(['--appendonly', 'yes', '--appendfsync', 'everysec']);
  const locks = await stage.locks('ioredis', server.url, { ttlMs: 2_000 });
  await (await locks.mutex('x').acquire()).release();
  await eventually('it is written', () => statSync(appendOnlyFile(server.dir)).size > 200);
  const kept = statSync(appendOnlyFile(server.dir)).size;
  const holds = [];
  for (let n = 0; n < 20; n += 1) {
    const hold = await locks.mutex('x').acquire();
    holds.push(hold.fence);
    await hold.release();
  }
  server.kill('SIGKILL');
  await server.exited();
  // As a power failure would: the last second is gone, and the counter is an old one.
  truncateSync(appendOnlyFile(server.dir), kept);
  await server.start();
  // Another process, so that it is not our own memory that keeps the fence rising.
  const fresh = await stage.locks('node-redis', server.url);
  const next = await fresh.mutex('x').acquire();
  expect(next.fence).toBeGreaterThan(holds.at(-1) ?? 0n);
  await next.release();
});

it('row 30: a replica that is promoted before the last writes arrived: two may hold, and their fences tell them apart', async () => {
  const { server: primary, proxy, ...stage } = await stageWith(['--repl-diskless-sync-delay', '0']);
  await using replica = await startRedis({ args: ['--replicaof', '127.0.0.1', `${proxy.port}`] });
  const direct = new Redis(replica.url);
  onTestFinished(() => direct.disconnect());
  await eventually('it has the data', async () =>
    (await direct.info('replication')).includes('master_link_status:up'),
  );
  const locks = await stage.locks('ioredis', primary.url, { ttlMs: 20_000 });
  await (await locks.mutex('warm').acquire()).release();
  await eventually(
    'the counter has arrived',
    async () => (await direct.exists('holdfast:\u0001fence')) === 1,
  );

  proxy.drop('toClient');
  const first = await locks.mutex('x').acquire();
  primary.kill('SIGKILL');
  await direct.call('REPLICAOF', 'NO', 'ONE');
  const others = await stage.locks('node-redis', replica.url);
  const second = await others.mutex('x').acquire();
  // The documented hole: both believe it, for as long as the first one's lease lasts. A gate lets only one of them write.
  first.assertHeld();
  expect(second.fence).toBeGreaterThan(first.fence);
  await second.release();
  // So that the first has somebody to give its lock back to.
  await primary.start();
});
