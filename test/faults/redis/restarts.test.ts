import { existsSync, readdirSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { startRedis } from '../../../src/torture/servers/redis.ts';
import { type Stage, startStage } from '../../redis/support/stage.ts';
import { LIBRARIES } from '../../support/clients/redis-clients.ts';
import { eventually, renewals } from '../../support/waiting/eventually.ts';

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
  it('row 28: without persistence, the next fence is greater, and the holder is notified', async () => {
    const { server, ...stage } = await stageWith();
    const locks = await stage.locks(library, server.url, { ttlMs: 15_000, renewEveryMs: 500 });
    const hold = await locks.mutex('x').acquire();
    server.kill('SIGKILL');
    await server.exited();
    await server.start();
    const next = await locks.mutex('x').acquire();
    expect(next.fence).toBeGreaterThan(hold.fence);
    await eventually('the first holder is notified', () => hold.signal.aborted, 14_000);
    expect(hold.signal.reason).toMatchObject({ how: 'taken' });
    next.assertHeld();
    await next.release();
  });

  it('row 22: with persistence, the hold survives the restart', async () => {
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

/** The append-only file of Redis 7; before that it was one file. */
function appendOnlyFile(dir: string): string {
  const folder = join(dir, 'appendonlydir');
  if (!existsSync(folder)) return join(dir, 'appendonly.aof');
  const name = readdirSync(folder).find((file) => file.endsWith('.incr.aof'));
  if (name === undefined) throw new Error('no append-only file');
  return join(folder, name);
}

it('row 29: after acknowledged writes are lost, fences still rise', async () => {
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
  // As after a power failure: the last second is lost, and the counter is an old one.
  truncateSync(appendOnlyFile(server.dir), kept);
  await server.start();
  // Another process, so that the fence is not kept rising by our own memory.
  const fresh = await stage.locks('node-redis', server.url);
  const next = await fresh.mutex('x').acquire();
  expect(next.fence).toBeGreaterThan(holds.at(-1) ?? 0n);
  await next.release();
});

it('row 30: a replica is promoted without the last writes: fences of two holders differ', async () => {
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
  // The documented gap: both hold until the lease of the first one ends. A fence gate lets only one of them
  // write.
  first.assertHeld();
  expect(second.fence).toBeGreaterThan(first.fence);
  await second.release();
  // So that the first holder has a server to release its lock at.
  await primary.start();
});
