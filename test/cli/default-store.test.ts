import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { holdfast } from './support/holdfast.ts';

const folder = mkdtempSync(join(tmpdir(), 'holdfast-home-'));
afterAll(() => rmSync(folder, { recursive: true }));

const noStore = { HOLDFAST_URL: '', XDG_STATE_HOME: '' };
const HINT = 'or name another store, with --store or in HOLDFAST_URL';

it.each([
  ['is empty', ''],
  ['is no folder', '/dev/null/home'],
])('without a store, a HOME that %s is exit code 69 with a hint at HOLDFAST_URL', async (_, home) => {
  for (const args of [['list'], ['run', 'x', '--', 'true']]) {
    const { code, stderr } = await holdfast(args, { ...noStore, HOME: home });
    expect({ args, code }).toEqual({ args, code: 69 });
    expect(stderr).toContain('there is no folder for the locks of this user');
    expect(stderr).toContain(HINT);
  }
});

it('with a store, HOME is not needed, and a store out of reach gets no hint at another', async () => {
  const file = `sqlite:${join(folder, 'locks.db')}`;
  expect((await holdfast(['list'], { HOLDFAST_URL: file, HOME: '' })).code).toBe(0);
  expect(readdirSync(folder)).toContain('locks.db');
  const { code, stderr } = await holdfast(['list'], { HOLDFAST_URL: 'redis://127.0.0.1:1', HOME: '' });
  expect(code).toBe(69);
  expect(stderr).not.toContain('another store');
});
