import { writeFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createLocks } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import type { Backend } from '../../src/torture/backends/backend.ts';
import { startBackend } from '../../src/torture/backends/start-backend.ts';
import { storedName } from '../../src/use.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { holdfast, start, stopAll } from './support/holdfast.ts';
import { killWhileItRuns } from './support/killed.ts';

const folder = temporaryFolder();
let redis: Backend;
let client: Redis;
let env: NodeJS.ProcessEnv;
beforeAll(async () => {
  redis = await startBackend('redis');
  client = new Redis(redis.url);
  env = { HOLDFAST_URL: redis.url };
});
afterEach(stopAll);
afterAll(async () => {
  folder.remove();
  client.disconnect();
  await redis.stop();
});

const once = (args: string[], command: string[]) => holdfast(['once', ...args, '--', ...command], env);

describe('holdfast once', () => {
  it('runs a command, and not again while its success is remembered', async () => {
    const shell = ['sh', '-c', 'echo ran $HOLDFAST_NAME; test "$HOLDFAST_FENCE" -gt 0'];
    expect(await once(['a'], shell)).toEqual({ code: 0, stdout: 'ran a\n', stderr: '' });
    expect(await once(['a'], shell)).toMatchObject({ code: 0, stdout: '' });
    expect(await once(['a', '--wait', '5s'], shell)).toMatchObject({ code: 0, stdout: '' });
    expect(await holdfast(['list', '--use', 'once'], env)).toMatchObject({
      stdout: expect.stringMatching(/^a +once, done/m),
    });
    expect(await holdfast(['forget', 'a'], env)).toMatchObject({ code: 0 });
    expect(await once(['a'], shell)).toMatchObject({ code: 0, stdout: 'ran a\n' });
  });

  it('remembers for as long as --remember says, a day unless set', async () => {
    const HOUR_MS = 3_600_000;
    for (const [name, more, hours] of [
      ['b1', [], 24],
      ['b7', ['--remember', '7d'], 168],
    ] as const) {
      expect(await once([name, ...more], ['true'])).toMatchObject({ code: 0 });
      const [claim] = await redisStore(client).read(storedName('once', name));
      expect((claim?.expiresInMs ?? 0) / HOUR_MS).toBeCloseTo(hours, 1);
    }
    expect(await once(['b', '--remember', '1s'], ['true'])).toMatchObject({ code: 0 });
    await eventually('forgotten', async () => (await once(['b'], ['echo', 'again'])).stdout === 'again\n');
  });

  it('does not remember a command that failed, was not found, or was ended by a signal', async () => {
    expect(await once(['c'], ['sh', '-c', 'exit 7'])).toMatchObject({ code: 7, stderr: '' });
    expect(await once(['c'], ['no-such-command'])).toMatchObject({ code: 127 });
    expect(await once(['c'], ['sh', '-c', 'kill -TERM $$'])).toMatchObject({ code: 143 });
    expect(await once(['c'], ['echo', 'at last'])).toMatchObject({ code: 0, stdout: 'at last\n' });
  });

  it('gives 75 while it runs elsewhere, and says where; with --wait it waits for that run', async () => {
    const file = folder.file('go');
    const wait = `echo in; while [ ! -e ${file} ]; do sleep 0.05; done`;
    const first = await start(['once', 'd', '--', 'sh', '-c', wait], env);
    await first.printed('in');
    const refused = await once(['d'], ['true']);
    expect(refused).toMatchObject({ code: 75, stdout: '' });
    expect(refused.stderr).toContain(`:${first.child.pid}:`);
    expect(await once(['d', '--wait', '2s'], ['true'])).toMatchObject({ code: 75, stdout: '' });
    const second = await start(['once', 'd', '--wait', '30s', '--', 'echo', 'second'], env);
    writeFileSync(file, '');
    expect(await first.result()).toMatchObject({ code: 0 });
    expect(await second.result()).toMatchObject({ code: 0, stdout: '' });
  });

  it('runs it after the run in progress has failed', async () => {
    const first = await start(['once', 'e', '--', 'sh', '-c', 'echo in; sleep 1; exit 3'], env);
    await first.printed('in');
    const second = await once(['e', '--wait', '30s'], ['echo', 'second']);
    expect(second).toMatchObject({ code: 0, stdout: 'second\n' });
    expect(await first.result()).toMatchObject({ code: 3 });
  });

  it('ends the command and gives 74 when the run was taken away, and does not remember it', async () => {
    const command = ['sh', '-c', 'trap "echo told; exit 0" TERM; echo in; while :; do sleep 0.05; done'];
    const first = await start(['once', 'f', '--ttl', '6s', '--', ...command], env);
    await first.printed('in');
    const [claim] = await redisStore(client).read(storedName('once', 'f'));
    expect(await redisStore(client).evict({ name: storedName('once', 'f'), id: claim?.id ?? '' })).toBe(true);
    expect(await first.result()).toMatchObject({ code: 74, stdout: 'in\ntold\n' });
    expect(await once(['f'], ['echo', 'again'])).toMatchObject({ code: 0, stdout: 'again\n' });
  });

  it('is not ended by a pushed grant, which is short until its first renewal', async () => {
    const locks = createLocks(redisStore(client));
    const name = 'pushed';
    const hold = await locks.mutex(name).acquire();
    const waiting = holdfast(['run', name, '--wait', '30s', '--', 'sh', '-c', 'sleep 0.3; echo ran'], env);
    await eventually('waits', async () => (await locks.inspect(name)).waiters.length === 1);
    // By now it is subscribed, so that the release pushes the grant.
    await new Promise((resolve) => setTimeout(resolve, 300));
    await hold.release();
    expect(await waiting).toEqual({ code: 0, stdout: 'ran\n', stderr: '' });
    await locks.close();
  });

  it('has the guard of run: when holdfast is killed, the command does not continue', async () => {
    await killWhileItRuns(['once', 'g'], env, folder.file('pid'));
  });

  it('passes signals on, and gives them up for its exit code while it waits', async () => {
    const first = await start(
      ['once', 'h', '--', 'sh', '-c', 'trap "exit 9" USR1; echo in; while :; do sleep 0.05; done'],
      env,
    );
    await first.printed('in');
    const second = await start(['once', 'h', '--wait', 'forever', '--', 'true'], env);
    await eventually('waits', async () =>
      (await holdfast(['show', 'h', '--use', 'once', '--json'], env)).stdout.includes(
        `:${second.child.pid}:`,
      ),
    );
    second.child.kill('SIGTERM');
    expect(await second.result()).toMatchObject({ code: 143 });
    first.child.kill('SIGUSR1');
    expect(await first.result()).toMatchObject({ code: 9 });
  });

  it.each([
    ['no command', ['once', 'x']],
    ['a duration without a unit', ['once', 'x', '--remember', '30', '--', 'true']],
    ['more than 366 days', ['once', 'x', '--remember', '400d', '--', 'true']],
    ['an option of run', ['once', 'x', '--shared', '--', 'true']],
    ['options of the command without --', ['once', 'x', 'ls', '-l']],
    ['a grace as long as the ttl', ['once', 'x', '--ttl', '5s', '--grace', '5s', '--', 'true']],
  ])('gives 64 for %s', async (_, args) => {
    expect(await holdfast(args, env)).toMatchObject({ code: 64, stdout: '' });
  });

  it('gives 69 where the store is out of reach', async () => {
    const unreachable = { HOLDFAST_URL: 'redis://127.0.0.1:1' };
    expect(await holdfast(['once', 'x', '--', 'true'], unreachable)).toMatchObject({ code: 69 });
  });
});
