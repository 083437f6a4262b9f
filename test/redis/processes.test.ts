import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, it } from 'vitest';
import { redisFenceGate } from '../../src/fence/index.ts';
import { LIBRARIES, openClient } from '../support/clients/redis-clients.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { closeAndExit, EXITED_AT_ONCE } from '../support/process/close-and-exit.ts';
import { startStage } from './support/stage.ts';
import { startWorker, stopWorkers } from './support/workers.ts';

const stage = await useStage(startStage());
const dir = mkdtempSync(join(tmpdir(), 'holdfast-redis-'));
afterEach(stopWorkers);
afterAll(async () => {
  rmSync(dir, { recursive: true });
});

it('twenty processes that read and write a file under one lock lose none of 2,000 updates', async () => {
  const path = join(dir, 'counter');
  writeFileSync(path, '0');
  const workers = Array.from({ length: 20 }, () =>
    startWorker(stage.server.url, 'count', 'file', path, '100'),
  );
  await Promise.all(workers.map((worker) => worker.said('done')));
  await Promise.all(workers.map((worker) => worker.exited));
  expect(readFileSync(path, 'utf8')).toBe('2000');
}, 120_000);

it('a process that closes its locks continues, and exits by itself', async () => {
  expect(await closeAndExit(stage.server.url)).toBe(EXITED_AT_ONCE);
});

it.each(LIBRARIES)(
  'row 1: a fence gate refuses the late write of a process that was paused for longer than its lease (%s)',
  async (library) => {
    const { client, close } = await openClient(library, stage.server.url);
    const gate = redisFenceGate(client);
    const locks = await stage.locks(library, stage.server.url);
    const name = `gate-${library}`;
    const paused = startWorker(stage.server.url, 'fencedWrite', name, `data-${library}`, 'late', '700');
    const { fence } = await paused.said('held');
    paused.kill('SIGSTOP');
    const hold = await locks.mutex(name).acquire();
    expect(hold.fence).toBeGreaterThan(BigInt(String(fence)));
    await gate.write(name, hold.fence, { set: [`data-${library}`, 'ours'] });
    paused.tell('write');
    paused.kill('SIGCONT');
    expect(await paused.said('refused')).toMatchObject({ code: 'STALE_FENCE' });
    expect(await stage.admin.get(`data-${library}`)).toBe('ours');
    await hold.release();
    await paused.exited;
    close();
  },
);

it.each(LIBRARIES)(
  'a fence gate runs a script with the keys and arguments of the caller in the same step (%s)',
  async (library) => {
    const { client, close } = await openClient(library, stage.server.url);
    const gate = redisFenceGate(client, { prefix: `p-${library}:` });
    const add = {
      script: "return redis.call('INCRBY', KEYS[1], ARGV[1])",
      keys: [`sum-${library}`],
      args: ['5'],
    };
    expect(await gate.write('account', 10n, add)).toBe(5);
    expect(await gate.write('account', 10n, add)).toBe(10);
    await stage.admin.script('FLUSH');
    expect(await gate.write('account', 11n, add)).toBe(15);
    await expect(gate.write('account', 9n, add)).rejects.toMatchObject({
      code: 'STALE_FENCE',
      latest: 11n,
      fence: 9n,
    });
    // 63 bits: two such fences are the same number in Lua.
    await gate.write('account', 2n ** 62n + 1n, add);
    await expect(gate.write('account', 2n ** 62n, add)).rejects.toMatchObject({ code: 'STALE_FENCE' });
    expect(await gate.write('other', 1n, { script: 'return nil' })).toBeNull();
    await expect(gate.write('', 1n, add)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect(await stage.admin.get(`sum-${library}`)).toBe('20');
    close();
  },
);
