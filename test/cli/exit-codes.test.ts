import { chmodSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { holdfast, start, stopAll } from './support/holdfast.ts';

const folder = temporaryFolder();
const env = { HOLDFAST_URL: `sqlite:${folder.file('locks.db')}` };
afterEach(stopAll);
afterAll(() => folder.remove());

const run = (args: string[], command: string[]) => holdfast(['run', ...args, '--', ...command], env);

describe('exit codes', () => {
  it('the code of the command, and 128 + n when a signal ended it', async () => {
    expect(await run(['a'], ['true'])).toMatchObject({ code: 0, stderr: '' });
    expect(await run(['a'], ['sh', '-c', 'exit 7'])).toMatchObject({ code: 7, stderr: '' });
    expect(await run(['a'], ['sh', '-c', 'kill -TERM $$'])).toMatchObject({ code: 143 });
    expect(await run(['a'], ['sh', '-c', 'kill -KILL $$'])).toMatchObject({ code: 137 });
  });

  it('127 for a missing command, 126 for one that cannot be run; the lock is released', async () => {
    expect(await run(['b'], ['no-such-command'])).toMatchObject({
      code: 127,
      stderr: expect.stringContaining('no-such-command'),
    });
    writeFileSync(folder.file('plain'), 'text');
    chmodSync(folder.file('plain'), 0o644);
    expect(await run(['b'], [folder.file('plain')])).toMatchObject({ code: 126 });
    expect(await run(['b', '--no-wait'], ['true'])).toMatchObject({ code: 0 });
  });

  it('75 for a time-out, with the holder of the lock', async () => {
    const holder = await start(['run', 'c', '--', 'sh', '-c', 'echo in; exec sleep 30'], env);
    await holder.printed('in');
    for (const once of [['--no-wait'], ['--wait', '0s']]) {
      const { code, stderr } = await run(['c', ...once], ['true']);
      expect(code).toBe(75);
      const [, owner] =
        /^holdfast: "c" is held by "(.+)" for \d+ .*, ends in \d+ .* unless renewed\n$/.exec(stderr) ?? [];
      expect(owner).toContain(`${hostname()}:${holder.child.pid}:`);
    }
    const late = await run(['c', '--wait', '1s'], ['true']);
    expect(late.code).toBe(75);
    expect(late.stderr).toContain(`:${holder.child.pid}:`);
    expect(late.stdout).toBe('');
  });

  it.each([
    ['no command', ['run', 'x']],
    ['no name', ['run']],
    ['an unknown verb', ['rum', 'x']],
    ['an unknown option', ['run', 'x', '--hurry', '--', 'true']],
    ['a duration without a unit', ['run', 'x', '--ttl', '30', '--', 'true']],
    ['a grace as long as the ttl', ['run', 'x', '--ttl', '5s', '--grace', '5s', '--', 'true']],
    ['a ttl that leaves no time to renew', ['run', 'x', '--ttl', '50ms', '--', 'true']],
    ['a grace that leaves no time to renew', ['run', 'x', '--ttl', '2s', '--grace', '1990ms', '--', 'true']],
    ['permits that are none', ['run', 'x', '--permits', '3/2', '--', 'true']],
    ['shared permits', ['run', 'x', '--shared', '--permits', '1/2', '--', 'true']],
    ['waiting and not waiting', ['run', 'x', '--wait', '3s', '--no-wait', '--', 'true']],
    ['not waiting and waiting', ['run', 'x', '--no-wait', '--wait=3s', '--', 'true']],
    ['a name with a control character', ['run', 'a\nb', '--', 'true']],
    ['a store that does not exist', ['run', 'x', '--store', 'nosuch:thing', '--', 'true']],
  ])('64 for wrong usage: %s', async (_what, args) => {
    const { code, stderr } = await holdfast(args, env);
    expect({ code, said: stderr.length > 0 }).toEqual({ code: 64, said: true });
  });

  it.each([
    ['an option of the command', ['run', 'x', 'ls', '-l', '/dev/null'], '-l'],
    ['an option that could be ours', ['run', 'x', 'echo', 'hi', '--ttl', '10s'], '--ttl'],
    ['the same in one word', ['run', 'x', '--wait', '1s', 'echo', '--ttl=10s'], '--ttl=10s'],
    ['a call for help', ['run', 'x', 'ls', '--help'], '--help'],
    ['a -- of the command', ['run', 'x', 'echo', 'hi', '--', 'there'], '--'],
  ])('64 with a hint for what may be meant for the command or for us: %s', async (_what, args, word) => {
    const { code, stdout, stderr } = await holdfast(args, env);
    expect({ code, stdout }).toEqual({ code: 64, stdout: '' });
    expect(stderr).toMatch(
      new RegExp(`^holdfast: ${word} .*: holdfast run NAME \\[options\\] -- (?:ls|echo) …\n$`),
    );
  });

  it('a command without options needs no --, and a command after -- keeps all of its options', async () => {
    expect(await holdfast(['run', 'x', '--ttl', '20s', 'echo', 'hi', '-'], env)).toMatchObject({
      code: 0,
      stdout: 'hi -\n',
    });
    expect(await run(['x'], ['echo', '--ttl', '--no-wait', '--', '--wait'])).toMatchObject({
      code: 0,
      stdout: '--ttl --no-wait -- --wait\n',
    });
  });

  it('69 when the store cannot be reached', async () => {
    const { code, stderr } = await holdfast(
      ['run', 'x', '--store', 'sqlite:/no/such/folder/locks.db', '--', 'true'],
      env,
    );
    expect({ code, stderr }).toEqual({
      code: 69,
      stderr: expect.stringContaining('/no/such/folder does not exist'),
    });
  });

  it.each(['2s', '5s'])('a short --ttl is accepted: %s', async (ttl) => {
    expect(await run(['short', '--ttl', ttl], ['true'])).toMatchObject({ code: 0, stderr: '' });
  });

  it('a --ttl of 200ms is accepted, and the default grace leaves time to renew', async () => {
    // A machine that is stalled for so short a time takes the lock away. Without a renewal no
    // command would last.
    const ends: unknown[] = [];
    while (ends.length < 10 && !ends.includes(0))
      ends.push((await run(['short', '--ttl', '200ms'], ['sleep', '0.3'])).code);
    expect(ends.at(-1)).toBe(0);
    expect(ends.filter((code) => code !== 0 && code !== 74)).toEqual([]);
  });

  it('0 for help and the version', async () => {
    expect(await holdfast(['--help'], env)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('evict'),
    });
    expect(await holdfast(['run', '--help'], env)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('--grace'),
    });
    expect(await holdfast(['--version'], env)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
    });
  });
});

describe('the command gets', () => {
  it('the name and a rising fence, its arguments unchanged, and our standard input', async () => {
    const script = 'printf "%s|%s|%s|" "$HOLDFAST_NAME" "$HOLDFAST_FENCE" "$1"; cat';
    const fences: bigint[] = [];
    for (let round = 0; round < 2; round += 1) {
      const running = await start(['run', 'the name', '--', 'sh', '-c', script, 'sh', '--ttl $(x) *'], env);
      running.child.stdin?.end('from outside');
      const { stdout, code } = await running.result();
      const [name, fence, argument, input] = stdout.split('|');
      expect({ code, name, argument, input }).toEqual({
        code: 0,
        name: 'the name',
        argument: '--ttl $(x) *',
        input: 'from outside',
      });
      fences.push(BigInt(fence ?? 0));
    }
    expect((fences[1] ?? 0n) > (fences[0] ?? 0n)).toBe(true);
  });

  it('no file descriptor beyond the first three', async () => {
    const { stdout } = await run(
      ['d'],
      ['sh', '-c', 'ls /proc/self/fd | wc -l; readlink /proc/$$/fd/3 || echo none'],
    );
    expect(stdout).toContain('none');
  });

  it('a lock that readers share, writers do not, and permits count', async () => {
    const reader = await start(['run', 'rw', '--shared', '--', 'sh', '-c', 'echo in; exec sleep 30'], env);
    await reader.printed('in');
    expect(await run(['rw', '--shared', '--no-wait'], ['true'])).toMatchObject({ code: 0 });
    expect(await run(['rw', '--no-wait'], ['true'])).toMatchObject({ code: 75 });
    const permits = await start(
      ['run', 'sem', '--permits', '2/3', '--', 'sh', '-c', 'echo in; exec sleep 30'],
      env,
    );
    await permits.printed('in');
    expect(await run(['sem', '--permits', '1/3', '--no-wait'], ['true'])).toMatchObject({ code: 0 });
    expect(await run(['sem', '--permits', '2/3', '--no-wait'], ['true'])).toMatchObject({ code: 75 });
    expect(await run(['sem', '--permits', '1/4', '--no-wait'], ['true'])).toMatchObject({ code: 64 });
  });
});
