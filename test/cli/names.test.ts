import fc from 'fast-check';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { copyable, typed } from '../../src/cli/text.ts';
import { createLocks, openLocks } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { startSharedRedis } from '../../src/torture/servers/redis.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { holdfast, stopAll } from './support/holdfast.ts';

const folder = temporaryFolder();
const path = folder.file('locks.db');
const env = { HOLDFAST_URL: `sqlite:${path}` };
afterEach(stopAll);
afterAll(() => folder.remove());

/** The names in the first column, and the claim of the first holder. */
const firstColumn = (stdout: string): string[] =>
  stdout
    .split('\n')
    .slice(1, -1)
    .map((line) => line.split('  ')[0] ?? '');
const claimIn = (stdout: string): string => /claim (.+)/.exec(stdout)?.[1] ?? '';

describe('a name', () => {
  it('can be copied from the output, and means the same to every command', async () => {
    const names = [
      'right to left \u202e',
      'a\\b\\n',
      'it looks \\u{202e} numbered',
      'so does \\u{5c}u{202e}',
      '\\\\u{7} \\u{zz} \\u{110000} \\u{41}',
    ].sort();
    const locks = createLocks(sqliteStore(path));
    const holds = await Promise.all(names.map((name) => locks.mutex(name).acquire()));
    const printed = firstColumn((await holdfast(['list'], env)).stdout);
    expect(printed.join('')).toMatch(/^[\x20-\x7e]+$/);
    for (const [n, hold] of holds.entries())
      expect(await holdfast(['evict', printed[n] ?? '', hold.id, '--yes'], env)).toMatchObject({ code: 0 });

    const [name = '', typedName = ''] = [names.at(-1), printed.at(-1)];
    expect(typedName).not.toBe(name);
    const hold = await locks.mutex(name).acquire();
    expect(JSON.parse((await holdfast(['list', typedName, '--json'], env)).stdout)).toMatchObject([{ name }]);
    expect(claimIn((await holdfast(['show', typedName], env)).stdout)).toBe(hold.id);
    await hold.release();
    const command = ['sh', '-c', 'printf %s "$HOLDFAST_NAME"'];
    expect((await holdfast(['run', typedName, '--', ...command], env)).stdout).toBe(name);
    await locks.close({ drainMs: 0 });
  });

  it('is read back from its printed form, and plain text is read as it is', () => {
    const piece = fc.oneof(
      fc.constantFrom(
        '\\',
        'u{',
        '}',
        '\\u{1f}',
        '5c',
        '\u001f',
        '\\u{5C}',
        '\\u{0041}',
        '\ud800',
        '😀',
        '\u{f0000}',
      ),
      fc.string({ unit: 'binary', maxLength: 3 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const name = pieces.join('');
        expect(typed(copyable(name))).toBe(name);
        expect(copyable(name)).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
      }),
      { numRuns: 2_000 },
    );
    for (const plain of ['C:\\users\\x', '\\u0041', '\\u{41}', '\\u{}', '\\u{110000}', 'a\\'])
      expect(typed(plain)).toBe(plain);
    expect(typed('once\\u{1F}x')).toBe('once\u001fx');
  });
});

describe('a finished once', () => {
  it('is listed by its own name, and can be forgotten', async () => {
    const locks = createLocks(sqliteStore(path));
    let runs = 0;
    const invoice = () => locks.once('invoice:2026-11', () => (runs += 1));
    expect([await invoice(), await invoice()]).toEqual([
      { ran: true, value: 1 },
      { ran: false, why: 'done' },
    ]);
    const listed = await holdfast(['list', '--use', 'once'], env);
    expect(listed.stdout).toMatch(/^invoice:2026-11 +once, done /m);
    expect((await holdfast(['list', '--use', 'lock'], env)).stdout).not.toContain('invoice');
    const shown = await holdfast(['show', 'invoice:2026-11', '--use', 'once', '--json'], env);
    expect(JSON.parse(shown.stdout)).toMatchObject({ name: 'invoice:2026-11', use: 'once', done: true });
    expect(await holdfast(['forget', 'invoice:2026-11'], env)).toMatchObject({ code: 0 });
    expect(await holdfast(['forget', 'invoice:2026-11'], env)).toMatchObject({ code: 1 });
    expect(await invoice()).toEqual({ ran: true, value: 2 });
    await locks.close();
  });
});

describe('a lock under a prefix in Redis', () => {
  it('is shown and evicted with the prefix in the URL, and is another lock without it', async () => {
    await using server = await startSharedRedis();
    const url = `${server.url}?prefix=cli-names:`;
    const locks = await openLocks(url, { owner: 'billing-1' });
    const hold = await locks.mutex('report').acquire();
    const under = { HOLDFAST_URL: url };
    expect((await holdfast(['show', 'report'], { HOLDFAST_URL: server.url })).stdout).toContain('free');
    expect((await holdfast(['show', 'report'], under)).stdout).toMatch(/held {2}billing-1/);
    expect(firstColumn((await holdfast(['list'], under)).stdout)).toEqual(['report']);
    const refused = await holdfast(['run', 'report', '--no-wait', '--', 'true'], under);
    expect(refused).toMatchObject({ code: 75, stderr: expect.stringContaining('held by "billing-1"') });
    expect((await holdfast(['evict', 'report', hold.id, '--yes'], under)).code).toBe(0);
    await locks.close({ drainMs: 0 });
    const misspelled = await holdfast(['list', '--store', `${server.url}?prefx=cli-names:`], under);
    expect(misspelled).toMatchObject({
      code: 64,
      stderr: expect.stringContaining('"prefx"; known here: prefix'),
    });
  });
});
