import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { afterAll, afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { resolveRun } from '../../src/cli/hold-options.ts';
import { parseDuration, parsePermits } from '../../src/cli/option-values.ts';
import { hasSecret, redactor } from '../../src/cli/store-url.ts';
import { duration, painter, printable } from '../../src/cli/text.ts';
import { describeRefusal, describeWait } from '../../src/cli/wait-status.ts';
import { createLocks, type LockView } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { holdfast, holdfastFile, start, stopAll } from './support/holdfast.ts';

const folder = temporaryFolder();
const path = folder.file('locks.db');
const env = { HOLDFAST_URL: `sqlite:${path}` };
afterEach(stopAll);
afterAll(() => folder.remove());

describe('list, show and evict', () => {
  it('show holders and waiters, for people and as JSON', async () => {
    const locks = createLocks(sqliteStore(path), { owner: 'web-1' });
    const hold = await locks.mutex('deploy').acquire({ metadata: { job: 'v2' } });
    const reader = await locks.readWriteLock('report').read.acquire();
    const waiting = later(locks.mutex('deploy').acquire({ waitMs: 60_000 }));
    await eventually('it waits', async () => (await locks.inspect('deploy')).waiters.length === 1);

    const listed = await holdfast(['list'], env);
    const [head, first, second] = listed.stdout.split('\n');
    expect(head).toMatch(/^LOCK +KIND +HOLDERS +WAITING +HELD BY +FOR +ENDS$/);
    expect(first).toMatch(/^deploy +exclusive +1 +1 +web-1 /);
    expect(second).toMatch(/^report +shared +1 +0 +web-1 \(reads\)/);
    const json = JSON.parse((await holdfast(['list', 'dep', '--json'], env)).stdout) as unknown[];
    expect(json).toMatchObject([
      {
        name: 'deploy',
        kind: 'exclusive',
        holders: [{ id: hold.id, owner: 'web-1', fence: hold.fence.toString(), metadata: { job: 'v2' } }],
      },
    ]);
    const shown = await holdfast(['show', 'deploy'], env);
    expect(shown.stdout).toMatch(/held {2}web-1 for .*, ends in .* unless renewed/);
    expect(shown.stdout).toContain(`claim ${hold.id}`);
    expect(shown.stdout).toContain('{"job":"v2"}');
    expect(shown.stdout).toMatch(/1\. {2}web-1/);

    expect(await holdfast(['evict', 'deploy', 'nobody', '--yes'], env)).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('was gone already'),
    });
    const evicted = await holdfast(['evict', 'deploy', hold.id, '--yes', '--json'], env);
    expect({ code: evicted.code, ...JSON.parse(evicted.stdout) }).toEqual({
      code: 0,
      name: 'deploy',
      id: hold.id,
      evicted: true,
    });
    const next = await waiting;
    expect(next.fence > hold.fence).toBe(true);
    await Promise.all([next.release(), reader.release(), hold.release()]);
    expect((await holdfast(['list'], env)).stdout).toContain('No lock is held');
    expect((await holdfast(['show', 'deploy'], env)).stdout).toContain('free');
    await locks.close();
  });

  it('print no control character of a name or an owner', async () => {
    const locks = createLocks(sqliteStore(path), { owner: 'x' });
    const hold = await locks.mutex('red \u202Etxt').acquire();
    const { stdout } = await holdfast(['list'], env);
    expect(stdout).toContain('red \\u{202e}txt');
    await hold.release();
    await locks.close();
    expect(printable('a\u001b[2Jb\n\u0007')).toBe('a\\u{1b}[2Jb\\u{a}\\u{7}');
  });

  it('print JSON without a character that a terminal would obey, and of the same value', async () => {
    const hostile = 'a\u001b\u007f\u009b2J\u202e\u2028\ufeff\u{e0041} 漢 🔒 "\\" z';
    const metadata = { [hostile]: [hostile, 'line\nline'] };
    const locks = createLocks(sqliteStore(path));
    const name = 'json \u202e';
    const hold = await locks.mutex(name).acquire({ metadata });
    const watching = await start(['watch', '--json', 'json'], env);
    await watching.printed('\n');
    const claim = { id: hold.id, metadata };
    const outputs = [
      [(await holdfast(['list', 'json', '--json'], env)).stdout, [{ name, holders: [claim] }]],
      [(await holdfast(['show', name, '--json'], env)).stdout, { name, holders: [claim] }],
      [watching.stdout, { name, change: 'held', claim }],
    ] as const;
    for (const [text, value] of outputs) {
      expect(JSON.parse(text)).toMatchObject(value);
      expect(text.replaceAll('\n', '')).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
      expect(text).toContain('漢 🔒');
    }
    await hold.release();
    await locks.close();
  });
});

describe('the store', () => {
  it('is a file in the state folder of the user by default', async () => {
    const home = folder.file('home');
    const { code } = await holdfast(['run', 'x', '--', 'true'], { HOLDFAST_URL: '', XDG_STATE_HOME: home });
    expect(code).toBe(0);
    expect(existsSync(`${home}/holdfast/locks.db`)).toBe(true);
    expect(statSync(`${home}/holdfast`).mode & 0o077).toBe(0);
  });

  it('is that of --store rather than that of HOLDFAST_URL', async () => {
    const other = folder.file('other.db');
    await holdfast(['list', '--store', `sqlite:${other}`], env);
    expect(existsSync(other)).toBe(true);
  });

  const SECRET = 's3cr%20et';
  it.each([
    ['in HOLDFAST_URL', ['list'], `nosuch://user:${SECRET}@host:1/0?password=hunter2`],
    ['in --store', ['list', '--store', `nosuch://user:${SECRET}@host:1/0?password=hunter2`], ''],
    ['in --store=', ['list', `--store=nosuch://user:${SECRET}@host:1/0?password=hunter2`], ''],
    ['in an option that does not exist', ['list', `--stroe=redis://user:${SECRET}@host:1/0`], ''],
    ['in the place of a verb', [`redis://user:${SECRET}@host:1/0`], ''],
    ['of a store that cannot be reached', ['list'], `redis://user:${SECRET}@127.0.0.1:1/0`],
    ['in a path', ['list'], `sqlite:/no/such/user:${SECRET}@host/hunter2`],
  ])('keeps its password to itself: %s', async (what, args, url) => {
    const { code, stdout, stderr } = await holdfast(args, { HOLDFAST_URL: url });
    expect(code).not.toBe(0);
    expect(stderr).not.toBe('');
    if (what !== 'in a path') expect(stdout + stderr).not.toMatch(/s3cr|hunter2/);
  });

  it('is printed without its secrets', () => {
    const hide = redactor('redis://u:p%40ss@h,g/0?token=abc&x=1', undefined, 'sqlite:./x.db');
    expect(hide('cannot reach redis://u:p%40ss@h,g/0?token=abc&x=1')).toBe(
      'cannot reach redis://***@h,g/0?token=***&x=1',
    );
    expect(hide('WRONGPASS p@ss')).toBe('WRONGPASS ***');
    expect(hide('nothing here')).toBe('nothing here');
  });

  it('has a password, or just the name of a user', () => {
    expect(['redis://u:p@h', 'rediss://:p@h/0', 'postgres://h/db?password=x'].map(hasSecret)).toEqual([
      true,
      true,
      true,
    ]);
    expect(['redis://h:6379/0', 'redis://u@h', 'sqlite:./a:b@c.db', 'echo', 'a?b'].map(hasSecret)).toEqual([
      false,
      false,
      false,
      false,
      false,
    ]);
  });

  it('causes a warning when every user of the machine can see its password', async () => {
    for (const args of [['--store', 'nosuch://u:pw@h'], ['--store=nosuch://u:pw@h']]) {
      const { stderr } = await holdfast(['list', ...args], env);
      expect(stderr).toContain('can be seen by every user');
    }
    const { code, stderr } = await holdfast(['run', 'x', '--', 'echo', '--store', 'redis://u:pw@h'], env);
    expect({ code, stderr }, 'but not of one that is the command’s').toEqual({ code: 0, stderr: '' });
  });
});

describe('the status line of a terminal', () => {
  it('shows the holder of the lock and for how long it has held, and is cleared', async () => {
    const holder = await start(['run', 'busy', '--', 'sh', '-c', 'echo in; read -r _'], env);
    await holder.printed('in');
    // `script` provides a terminal.
    const command = `${process.execPath} ${await holdfastFile()} run busy --wait 40s -- echo mine`;
    const child = spawn('script', ['-qec', command, '/dev/null'], {
      env: { ...process.env, ...env, TERM: 'xterm' },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    let stdout = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
    });
    onTestFinished(() => void child.kill());
    const words = /waiting for "busy", .*; held by ".*:\d+:\w+" for \d+/;
    await eventually('it says so', () => words.test(stdout));
    holder.child.stdin?.end('go on\n');
    await once(child, 'close');
    expect(stdout.slice(stdout.lastIndexOf('\r\u001b[2K'))).toMatch(/mine/);
  });

  it('is written for people', () => {
    const claim = {
      id: 'i',
      fence: 1n,
      mode: { kind: 'exclusive' },
      expiresInMs: 1,
      metadata: null,
    } as const;
    const view: LockView = {
      name: 'x',
      use: 'lock',
      done: false,
      kind: 'exclusive',
      permits: null,
      holders: [{ ...claim, owner: 'web-1', heldForMs: 65_000 }],
      waiters: [
        { ...claim, owner: 'other', heldForMs: null },
        { ...claim, owner: 'me', heldForMs: null },
      ],
    };
    expect(describeWait('x', view, 'me', 3_000)).toBe(
      'waiting for "x", 3 s; held by "web-1" for 1 min 5 s; 1 ahead of us',
    );
    expect(describeRefusal('x', view)).toBe(
      '"x" is held by "web-1" for 1 min 5 s, ends in 1 ms unless renewed',
    );
    const three = [...view.holders, ...view.holders, ...view.holders].map((each) => ({
      ...each,
      expiresInMs: null,
    }));
    expect(describeRefusal('x', { ...view, holders: three })).toBe(
      '"x" is held by "web-1" for 1 min 5 s; and 2 more',
    );
    expect(describeRefusal('x', { ...view, holders: [] })).toBe('"x" goes to "other" next');
    expect(describeRefusal('x', { ...view, holders: [], waiters: [] })).toContain('just released it');
    expect(describeRefusal('x', null)).toContain('does not say by which');
    expect(describeWait('x', null, 'me', 300)).toBe('waiting for "x", 300 ms; the store does not answer');
  });
});

describe('durations, permits, colours and grace periods', () => {
  it('are read and printed', () => {
    expect([
      parseDuration('--ttl', '500ms'),
      parseDuration('--ttl', '1.5s'),
      parseDuration('--ttl', '2h'),
      parseDuration('--ttl', '2.3h'),
      parseDuration('--ttl', '1.005s'),
    ]).toEqual([500, 1_500, 7_200_000, 8_280_000, 1_005]);
    for (const bad of ['', '5', 's', '-1s', '1e3s', '5 s', '0.0001ms'])
      expect(() => parseDuration('--ttl', bad)).toThrow(/--ttl/);
    expect(parsePermits('2/10')).toEqual({ kind: 'permits', count: 2, of: 10 });
    expect([duration(999), duration(59_400), duration(3_600_000), duration(7_500_000)]).toEqual([
      '999 ms',
      '59 s',
      '1 h',
      '2 h 5 min',
    ]);
    expect(painter({ isTTY: true }, {})('red', 'x')).toBe('\u001b[31mx\u001b[0m');
    expect(painter({ isTTY: true }, { NO_COLOR: '1' })('red', 'x')).toBe('x');
  });

  it('leave time for three renewals before the grace must begin', () => {
    for (const [ttl, grace] of [
      ['30s', '5s'],
      ['6s', '5s'],
      ['1s', '900ms'],
      ['2s', '1ms'],
      ['2s', undefined],
      ['120ms', undefined],
    ] as const) {
      const terms = resolveRun({ ttl, grace, wait: '1s' });
      const trustedMs = terms.ttlMs * 0.99 - 2;
      expect(terms.renewEveryMs * 3).toBeLessThanOrEqual(trustedMs - terms.graceMs);
      expect(terms.marginMs + terms.graceMs + terms.renewEveryMs).toBeLessThan(trustedMs);
    }
  });

  it('have a grace of 5 s, or of a third of a TTL that is shorter than 15 s', () => {
    const graceOf = (ttl: string): number => resolveRun({ ttl, wait: '1s' }).graceMs;
    expect(['30s', '15s', '9s', '2s', '1s'].map(graceOf)).toEqual([5_000, 5_000, 3_000, 666, 333]);
    expect(() => resolveRun({ ttl: '50ms', wait: '1s' })).toThrow(/^--ttl \(50ms\)/);
    expect(() => resolveRun({ ttl: '2s', grace: '2s', wait: '1s' })).toThrow(/^--grace \(2s\)/);
  });
});
