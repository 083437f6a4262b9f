import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { createLocks } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import { startShell } from './support/shell.ts';

const ESC = '\u001b';
/** What the live table itself writes: moves, and switches that it switches back. No colours. */
const OWN_SEQUENCES = new RegExp(`${ESC}\\[(?:\\d+;1H|2J|\\?(?:1049|25|7|2026)[hl])`, 'g');

it('watch shows no control sequence of a name or an owner, and continues after an outage', async () => {
  await using server = await startRedis();
  const client = new Redis(server.url);
  client.on('error', () => {});
  // As another program may write them: it has no rules for names.
  await client.set(
    'holdfast:evil\u001b]0;title\u0007\u009b2J',
    'owner\u001b[2J\r\nforged line',
    'PX',
    600_000,
  );
  await client.set('holdfast:zh 漢字漢字', 'tok\u202een', 'PX', 600_000);
  await using terminal = await startShell({ HOLDFAST_URL: server.url, NO_COLOR: '1' }, { columns: 140 });
  await terminal.enter('holdfast watch');
  const table = await terminal.shows(
    /evil\\u\{1b\}\]0;title\\u\{7\}\\u\{9b\}2J/,
    /owner\\u\{1b\}\[2J/,
    'zh 漢字漢字',
  );
  expect(table).not.toMatch(/^forged/m);
  await terminal.press('Enter');
  await terminal.shows('claim owner\\u{1b}[2J\\u{d}\\u{a}forged line');
  await terminal.press('e');
  await terminal.shows(/claim owner\\u\{1b\}\[2J.*\n {2}holds it, fence/);
  await terminal.press('n', 'q');
  await terminal.shows('> evil');

  server.kill('SIGKILL');
  await server.exited();
  expect(await terminal.shows('Store out of reach')).toContain('> evil');
  await server.start();
  await terminal.hides('Store out of reach');
  const locks = createLocks(redisStore(client));
  await locks.mutex('after the outage').acquire({ metadata: {} });
  await terminal.shows('after the outage');
  await terminal.press('q');
  await terminal.shows('exit 0 >');

  const left = `${ESC}[?1049l`;
  const [, shown = ''] = (await terminal.written(left)).split(`${ESC}[?1049h`);
  expect(shown).toContain('漢字');
  expect(shown.split(left)[0]?.replace(OWN_SEQUENCES, '')).not.toMatch(/\p{C}/u);
  await locks.close({ drainMs: 0 });
  client.disconnect();
});
