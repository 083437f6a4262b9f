import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLocks, type Locks } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { holdfast, start, stopAll } from './support/holdfast.ts';

/** Other verbs have files of their own: `once`, `elect`, `guard`, `evict`, `watch` and `completion`. */
const folder = temporaryFolder();
const path = folder.file('locks.db');
const env = { HOLDFAST_URL: `sqlite:${path}` };
const unreachable = { HOLDFAST_URL: 'sqlite:/no/such/folder/locks.db' };
let locks: Locks;
let id: string;
beforeAll(async () => {
  locks = createLocks(sqliteStore(path), { owner: 'web-1' });
  ({ id } = await locks.mutex('held').acquire());
  await locks.once('finished', () => {});
  await locks.once('also finished', () => {});
});
afterAll(async () => {
  await stopAll();
  await locks.close({ drainMs: 0 });
  folder.remove();
});

const claim = { owner: 'web-1', fence: expect.stringMatching(/^\d+$/), metadata: null };
const held = { name: 'held', use: 'lock', kind: 'exclusive', permits: null, done: false, waiters: [] };
const finished = { use: 'once', done: true, holders: [], waiters: [] };

describe.concurrent('--json prints one value, whatever is found', () => {
  it.concurrent.each([
    ['list', ['list', 'held'], 0, [{ ...held, holders: [claim] }]],
    ['list of a use', ['list', '--use', 'once', 'fin'], 0, [{ name: 'finished', ...finished }]],
    ['list of nothing', ['list', 'nosuch'], 0, []],
    ['show', ['show', 'held'], 0, { ...held, holders: [claim] }],
    ['show of a use', ['show', 'finished', '--use', 'once'], 0, { name: 'finished', ...finished }],
    ['show of a free lock', ['show', 'free'], 0, { name: 'free', kind: null, holders: [], waiters: [] }],
    ['evict of nothing', ['evict', 'free', 'x', '--yes'], 1, { name: 'free', id: 'x', evicted: false }],
    ['evict --all of nothing', ['evict', 'free', '--all', '--yes'], 1, { name: 'free', claims: [] }],
    ['forget', ['forget', 'also finished'], 0, { name: 'also finished', forgotten: true }],
    ['forget of nothing', ['forget', 'nosuch'], 1, { name: 'nosuch', forgotten: false }],
  ])('%s', async (_, args, code, value) => {
    const result = await holdfast([...args, '--json'], env);
    expect({ code: result.code, stderr: result.stderr }).toEqual({ code, stderr: '' });
    expect(JSON.parse(result.stdout)).toMatchObject(value);
  });
});

describe.concurrent('migrations', () => {
  const printed = async (url: string, ...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await holdfast(['migrations', ...args], { ...env, HOLDFAST_URL: url });
    return `${code} ${stdout}${stderr}`;
  };

  it('are those of --store, else of HOLDFAST_URL, else of PostgreSQL', async () => {
    const mysql = await printed('mysql://h/db?prefix=jobs_');
    expect(mysql).toMatch(/^0 .*jobs_locks/s);
    const postgres = await printed('postgres://h/db?schema=jobs');
    expect(postgres).toMatch(/^0 .*"jobs"\.locks/s);
    expect(await printed('')).toMatch(/^0 .*"holdfast"\.locks/s);
    expect(await printed('redis://h', '--store', 'mysql://h/db?prefix=jobs_')).toBe(mysql);
    expect(await printed('redis://h')).toMatch(/^64 .*HOLDFAST_URL must be a postgres: or mysql: URL/s);
  });
});

describe.concurrent('exit codes of the verbs that look', () => {
  it.concurrent.each([
    ['list of an unknown use', ['list', '--use', 'mutex']],
    ['list with two prefixes', ['list', 'a', 'b']],
    ['show of no name', ['show']],
    ['show of a name with a control character', ['show', 'a\nb']],
    ['show of an unknown use', ['show', 'a', '--use', 'Lock']],
    ['forget of no name', ['forget']],
    ['forget of a use', ['forget', 'a', '--use', 'once']],
    ['migrations of a store without tables', ['migrations', '--store', 'redis://h']],
    ['a store with an unknown parameter', ['list', '--store', 'redis://h?x=1']],
    ['no verb', []],
  ])('64 for %s', async (_, args) => {
    const { code, stdout, stderr } = await holdfast(args, env);
    expect({ code, stdout, said: stderr !== '' }).toEqual({ code: 64, stdout: '', said: true });
  });

  it.concurrent.each([
    [['list']],
    [['show', 'a']],
    [['watch']],
    [['evict', 'a', 'x', '--yes']],
    [['forget', 'a']],
    [['elect', 'a', '--', 'true']],
  ])('69 where the store is out of reach: %j', async (args) => {
    const { code, stdout, stderr } = await holdfast(args, unreachable);
    expect({ code, stdout }).toEqual({ code: 69, stdout: '' });
    expect(stderr).toMatch(/^holdfast: .*\/no\/such\/folder does not exist/);
  });

  it.concurrent('1 and plain words where nothing was found; 0 for help', async () => {
    expect(await holdfast(['forget', 'nosuch'], env)).toEqual({
      code: 1,
      stdout: 'No finished run of "nosuch" is remembered\n',
      stderr: '',
    });
    expect(await holdfast(['help', 'evict'], env)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('--all'),
    });
    expect((await locks.inspect('held')).holders).toMatchObject([{ id }]);
  });
});

it('run waits for a store that restarts, as long as --wait allows', async () => {
  await using server = await startRedis();
  server.kill('SIGKILL');
  await server.exited();
  const url = { HOLDFAST_URL: server.url };
  expect(await holdfast(['run', 'x', '--no-wait', '--', 'true'], url)).toMatchObject({ code: 69 });
  const waiting = await start(['run', 'x', '--wait', '60s', '--', 'echo', 'ran'], url);
  await sleep(500);
  expect(waiting.child.exitCode).toBeNull();
  await server.start();
  expect(await waiting.result()).toMatchObject({ code: 0, stdout: 'ran\n' });
});
