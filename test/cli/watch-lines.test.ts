import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Locks, openLocks } from '../../src/index.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { holdfast, start, stopAll } from './support/holdfast.ts';
import { pathWithHoldfast } from './support/shell.ts';

let server: Server;
let locks: Locks;
let env: NodeJS.ProcessEnv;
beforeAll(async () => {
  server = await startRedis();
  locks = await openLocks(server.url, { owner: 'web-1' });
  env = { HOLDFAST_URL: server.url };
});
afterAll(async () => {
  await stopAll();
  await locks.close({ drainMs: 0 });
  await server.stop();
});

describe('watch in a pipe', () => {
  it('prints a line for each change, escaped, until a signal ends it', async () => {
    const name = 'lines \u202e';
    const hold = await locks.mutex(name).acquire();
    const watching = await start(['watch', 'lines'], env);
    await watching.printed(`held     lines \\u{202e}  web-1  fence ${hold.fence}  claim ${hold.id}\n`);
    const waiting = later(locks.mutex(name).acquire({ waitMs: 300_000 }));
    await watching.printed('waiting  lines \\u{202e}  web-1  claim web-1#');
    await locks.mutex('other').acquire();
    await hold.release();
    const next = await waiting;
    await watching.printed(`gone     lines \\u{202e}  web-1  fence ${hold.fence}  claim ${hold.id}\n`);
    await watching.printed(`held     lines \\u{202e}  web-1  fence ${next.fence}  claim ${next.id}\n`);
    await locks.once('lines', () => {});
    await watching.printed('done     lines  once\n');
    watching.child.kill('SIGTERM');
    const { code, stdout, stderr } = await watching.result();
    expect({ code: code ?? 143, stderr }).toEqual({ code: 143, stderr: '' });
    expect(stdout).not.toContain('other');
    const lines = stdout.trimEnd().split('\n');
    // The hold, the waiter, the handoff in two lines. Renewals print nothing. The run of the once may
    // have been seen before its end.
    expect(lines.filter((line) => line.includes('\\u{202e}'))).toHaveLength(4);
    expect(lines.filter((line) => line.includes('  done  '))).toHaveLength(1);
    for (const line of lines)
      expect(line).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z {2}(held|waiting|gone|done) /);
  });

  it('prints JSON, selects a use, reports when the store cannot be reached, and continues', async () => {
    const hold = await locks.mutex('json').acquire({ metadata: { job: 'v2' }, ttlMs: 600_000 });
    const watching = await start(['watch', '--json', '--use', 'lock', 'json'], env);
    await watching.printed('"held"');
    server.kill('SIGKILL');
    await server.exited();
    await watching.printed('"outage"');
    await server.start();
    await watching.printed('"back"');
    // The server kept nothing.
    await watching.printed('"gone"');
    watching.child.kill('SIGINT');
    const { code, stdout, stderr } = await watching.result();
    expect({ code, stderr }).toEqual({ code: 130, stderr: '' });
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    const at = expect.stringMatching(/^\d{4}-.*Z$/);
    const claim = { id: hold.id, owner: 'web-1', fence: hold.fence.toString(), metadata: { job: 'v2' } };
    expect(lines).toMatchObject([
      { at, change: 'held', name: 'json', use: 'lock', claim },
      { at, change: 'outage', message: expect.any(String) },
      { at, change: 'back' },
      { at, change: 'gone', name: 'json', use: 'lock', claim },
    ]);
  });

  it('ends quietly with the reader of the pipe, as list does', async () => {
    const shellEnv = { ...env, PATH: await pathWithHoldfast() };
    const shell = (line: string) =>
      promisify(execFile)('bash', ['-c', `set -o pipefail; ${line}`], {
        env: { ...process.env, ...shellEnv },
      });
    // It notices at the next change.
    const watching = shell('holdfast watch piped | head -n 1');
    let isOver = false;
    void watching.finally(() => {
      isOver = true;
    });
    await eventually('over', async () => {
      await locks.mutex(`piped ${performance.now()}`).acquire();
      await new Promise((resolve) => setTimeout(resolve, 100));
      return isOver;
    });
    const first = await watching;
    expect(first.stdout).toMatch(/^[^\n]* held {5}piped [^\n]*\n$/);
    expect(first.stderr).toBe('');
    const none = await shell('holdfast list piped | true');
    expect(none).toEqual({ stdout: '', stderr: '' });
  });

  it.concurrent.each([
    ['an unknown use', ['watch', '--use', 'mutex'], 64],
    ['a prefix with a control character', ['watch', 'a\nb'], 64],
    ['two prefixes', ['watch', 'a', 'b'], 64],
    ['a store out of reach at the start', ['watch', '--store', 'redis://127.0.0.1:1'], 69],
  ])('ends at once for %s', async (_, args, code) => {
    const result = await holdfast(args, env);
    expect(result).toMatchObject({ code, stdout: '' });
    expect(result.stderr).not.toBe('');
  });
});
