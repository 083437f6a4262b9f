import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { createLocks, type Locks } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import type { Terminal } from '../support/terminal/terminal.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { startShell } from './support/shell.ts';

const folder = temporaryFolder();
const opened: Locks[] = [];
afterAll(async () => {
  await Promise.all(opened.map((locks) => locks.close({ drainMs: 0 })));
  folder.remove();
});

/** Locks in a file of their own: the live table shows everything of a store. */
function ownStore(owner: string): { locks: Locks; env: NodeJS.ProcessEnv } {
  const path = folder.file(`${owner}.db`);
  const locks = createLocks(sqliteStore(path), { owner });
  opened.push(locks);
  return { locks, env: { HOLDFAST_URL: `sqlite:${path}` } };
}

/** What the live table writes when it ends. */
const LEAVE = '\u001b[?1049l';

/** A hold, and a claim that waits for it. */
async function contended(locks: Locks, name: string) {
  const hold = await locks.mutex(name).acquire();
  const next = later(locks.mutex(name).acquire({ waitMs: 300_000 }));
  await eventually('waits', async () => (await locks.inspect(name)).waiters.length === 1);
  return { hold, next };
}

/** Fails unless the program that ended has left the terminal as it was. */
async function expectSane(terminal: Terminal): Promise<void> {
  expect(await terminal.modes()).toEqual({ alternateScreen: false, cursor: true, wrap: true });
  await terminal.enterAnew('test "$before" = "$(stty -g)" && echo as be""fore');
  await terminal.shows('as before');
}

describe.concurrent('watch on a terminal', () => {
  it.concurrent('shows a table that can be sorted, filtered, resized, and left', async () => {
    const { locks, env } = ownStore('web-1');
    const first = await locks.mutex('invoice:1').acquire();
    await locks.mutex('invoice:2').acquire();
    await contended(locks, 'report');
    await using terminal = await startShell(env, { columns: 100 });
    await terminal.enter('before=$(stty -g); clear; holdfast watch');
    await terminal.shows(
      /^holdfast {2}3 locks, 1 with a queue/,
      /^ {2}LOCK↓ +KIND +HELD +QUEUE +AGE +LEASE +FENCE +OWNER/m,
      /^> invoice:1 +exclusive +1 +0 +\d+m?s +\d+s +\d{5,} {2}web-1$/m,
      ` ${first.fence}  web-1`,
      /invoice:1[\s\S]*invoice:2[\s\S]*report/,
      /^ {2}report +exclusive +1 +1 /m,
    );
    await terminal.press('s');
    await terminal.shows(/QUEUE↓[\s\S]*report[\s\S]*invoice:1[\s\S]*invoice:2/);
    await terminal.press('r');
    await terminal.shows(/QUEUE↑[\s\S]*invoice:1[\s\S]*invoice:2[\s\S]*report/);
    await terminal.type('/INV');
    await terminal.shows(/\/INV_/);
    await terminal.press('Enter');
    expect(await terminal.shows('filter: INV')).not.toContain('report');
    await terminal.press('Escape');
    await terminal.shows('report');
    await terminal.press('?');
    await terminal.shows('this help');
    await terminal.press('?');
    await terminal.hides('this help');
    await terminal.resize(40, 8);
    const narrow = await terminal.shows(/^ {2}LOCK +QUEUE↑ +AGE +LEASE *\n/m, /^ {2}report +1 /m);
    expect(Math.max(...narrow.split('\n').map((line) => line.length))).toBeLessThanOrEqual(40);
    await terminal.resize(100, 24);
    await terminal.shows(/FENCE +OWNER/);
    await terminal.press('q');
    expect(await terminal.shows('exit 0 >')).not.toContain('LOCK');
    await expectSane(terminal);
    // Nothing was cleared between two frames, which would flicker.
    const shown = (await terminal.written(LEAVE)).split(LEAVE)[0] ?? '';
    expect(shown.split('\u001b[2J').length - 1).toBeLessThanOrEqual(1);
  });

  it.concurrent('moves, shows one lock with its queue, and follows it until it is free', async () => {
    const { locks, env } = ownStore('web-2');
    const held = await locks.mutex('a').acquire();
    const { hold, next } = await contended(locks, 'b');
    await using terminal = await startShell(env);
    await terminal.enter('holdfast watch');
    await terminal.shows(/> a .*[\s\S]* b /);
    await terminal.press('Down');
    await terminal.shows(/> b /);
    await terminal.press('k');
    await terminal.shows(/> a /);
    await terminal.press('G', 'Enter');
    await terminal.shows(
      /^b {2}exclusive/m,
      /^> held {2}web-2 for .*, ends in .* unless renewed/m,
      `claim ${hold.id}`,
      `fence ${hold.fence}`,
      /^ {2}1\. {2}web-2/m,
    );
    await hold.release();
    const later = await next;
    await terminal.shows(`fence ${later.fence}`);
    await later.release();
    await terminal.shows(/^b\nfree/m);
    await terminal.press('q');
    await terminal.shows(/> a /);
    await held.release();
    await terminal.shows('No lock is held or waited for.');
    await terminal.press('q');
    await terminal.shows('exit 0 >');
  });

  it.concurrent('evicts the claim that it shows, after a y only, in 40 columns too', async () => {
    const OWNER = `web-3-${'of-the-long-name-'.repeat(3)}`;
    const { locks, env } = ownStore(OWNER);
    const { hold, next } = await contended(locks, 'deploy');
    await using terminal = await startShell(env, { columns: 40, rows: 14 });
    await terminal.enter('holdfast watch dep');
    await terminal.shows(/> deploy /);
    // The last line of the question.
    const holds = `holds it, fence ${hold.fence}\n`;
    for (const no of ['n', 'Enter', 'e']) {
      await terminal.press('e');
      const question = await terminal.shows('Evict? y: yes, any other key: no', holds);
      // Nothing of the claim is cut off: long lines are wrapped.
      const whole = question.replace(/\n {4}/g, '');
      expect(whole).toContain('lock "deploy"');
      expect(whole).toContain(`owner ${OWNER}\n`);
      expect(whole).toContain(`claim ${hold.id}\n`);
      await terminal.press(no);
      await terminal.shows('Nothing was evicted');
    }
    await terminal.press('Down', 'e');
    const waiter = (await locks.inspect('deploy')).waiters[0]?.id;
    const ofWaiter = (await terminal.shows('waits for it, 1. in the queue')).replace(/\n {4}/g, '');
    expect(ofWaiter).toContain(`claim ${waiter}\n`);
    expect(ofWaiter).not.toContain('holds it');
    await terminal.press('n', 'Up');
    await terminal.shows(/> held /);
    expect((await locks.inspect('deploy')).holders.map(({ id }) => id)).toEqual([hold.id]);
    await terminal.press('e');
    await terminal.shows('Evict? y: yes', holds);
    await terminal.press('y');
    await terminal.shows('Took "deploy" away');
    expect((await next).fence > hold.fence).toBe(true);
    await terminal.shows(`fence ${(await next).fence}`);
    await terminal.press('q', 'q');
    await terminal.shows('exit 0 >');
  });

  it.concurrent('leaves the terminal as it was after signals, an error and a stop', async () => {
    const { locks, env } = ownStore('web-4');
    await locks.mutex('there').acquire();
    const fault = folder.file('fault.cjs');
    writeFileSync(fault, "process.on('SIGUSR2', () => { throw new Error('a fault'); });");
    const pidFile = folder.file('pid');
    await using terminal = await startShell({ ...env, NODE_OPTIONS: `--require=${fault}` });
    await terminal.enter('before=$(stty -g)');
    const start = async (): Promise<number> => {
      await terminal.enterAnew(`sh -c 'echo $$ > ${pidFile}; exec holdfast watch'`);
      await terminal.shows('> there');
      return Number(readFileSync(pidFile, 'utf8'));
    };
    for (const [signal, code] of [
      ['SIGINT', 130],
      ['SIGTERM', 143],
      ['SIGUSR2', 1],
    ] as const) {
      process.kill(await start(), signal);
      const screen = await terminal.shows(`exit ${code} >`);
      expect(screen).not.toContain('> there');
      if (signal === 'SIGUSR2') expect(screen).toContain('a fault');
      await expectSane(terminal);
    }
    await start();
    await terminal.press('C-z');
    await terminal.shows(/Stopped[\s\S]*exit \d+ >/);
    await expectSane(terminal);
    await terminal.enter('fg');
    await terminal.shows('> there');
    await terminal.press('C-c');
    await terminal.shows('exit 130 >');
    await expectSane(terminal);
  });
});
