import { execFile } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { plan } from '../../src/cli/completion/plan.ts';
import { forBash, readLine } from '../../src/cli/completion/shell-line.ts';
import { defineVerbs } from '../../src/cli/verbs.ts';
import { createLocks, type Locks } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { findProgram } from '../../src/torture/servers/find.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { Terminal } from '../support/terminal/terminal.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { holdfast } from './support/holdfast.ts';
import { pathWithHoldfast } from './support/shell.ts';

const folder = temporaryFolder();
const path = folder.file('locks.db');
const NAME = "it's: a *trap* \u202e";
let locks: Locks;
let env: NodeJS.ProcessEnv;
beforeAll(async () => {
  locks = createLocks(sqliteStore(path));
  for (const name of ['invoice:2026-11', 'report 7', NAME]) await locks.mutex(name).acquire();
  await locks.once('migrate', () => {});
  env = { HOLDFAST_URL: `sqlite:${path}`, PATH: await pathWithHoldfast() };
});
afterAll(async () => {
  await locks.close({ drainMs: 0 });
  folder.remove();
});

/** What `complete` answers to these words: the kind, and the candidates without descriptions. */
async function completed(...words: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await holdfast(['complete', 'fish', '--', ...words], env);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t')[0] ?? '');
}

describe('what can be completed', () => {
  const definitions = defineVerbs(async () => {}, null);
  const wordsOf = (...words: string[]): string[] => {
    const planned = plan(definitions, words);
    return planned.kind === 'words' ? planned.words.map(({ text }) => text) : [planned.kind];
  };

  it('are the verbs and options that commander knows, and no hidden one', () => {
    const verbs = definitions.commands.map((command) => command.name());
    const visible = [...verbs.filter((verb) => verb !== 'complete'), 'help'];
    expect(wordsOf('').sort()).toEqual(visible.sort());
    for (const command of definitions.commands.filter((each) => each.name() !== 'complete')) {
      const options = command.options.map((option) => option.long);
      expect(wordsOf(command.name(), '-').sort()).toEqual([...options, '--help'].sort());
    }
    expect(wordsOf('-')).toEqual(['--version', '--help']);
    expect(wordsOf('help', '')).toContain('evict');
  });

  it.each([
    [
      ['completion', ''],
      ['bash', 'zsh', 'fish'],
    ],
    [
      ['list', '--use', ''],
      ['lock', 'once', 'rateLimit', 'schedule'],
    ],
    [
      ['list', '--use='],
      ['--use=lock', '--use=once', '--use=rateLimit', '--use=schedule'],
    ],
    [['show', ''], ['names']],
    [['show', '--store', ''], []],
    [['show', '--store', 'x', ''], ['names']],
    [['show', 'a', ''], []],
    [['evict', '--yes', 'a', ''], ['claims']],
    [['run', '--ttl', '1s', ''], ['names']],
    [['run', 'a', '--', ''], ['command']],
    [['run', 'a', ''], ['command']],
    [['run', 'a', '--', 'ls', '-'], ['files']],
    [['run', 'a', '--', '-'], ['command']],
    [['nosuch', ''], []],
  ])('%j is followed by %j', (words, expected) => {
    expect(wordsOf(...words)).toEqual(expected);
  });

  it.concurrent('are the names and claims of the store, escaped; of the use of the verb', async () => {
    const [holder] = (await locks.inspect('invoice:2026-11')).holders;
    for (const [words, expected] of [
      [['show', 'inv'], ['invoice:2026-11']],
      [
        ['run', ''],
        ['invoice:2026-11', "it's: a *trap* \\u{202e}", 'report 7'],
      ],
      [['forget', ''], ['migrate']],
      [['evict', 'invoice:2026-11', ''], [holder?.id]],
    ] as const) {
      await eventually(`${words} is followed by ${expected}`, async () => {
        const [kind, ...candidates] = await completed(...words);
        return kind === 'words' && candidates.join('|') === expected.join('|');
      });
    }
  });

  it.concurrent('are nothing, and nothing is made, without a store or with one out of reach', async () => {
    const file = folder.file('new.db');
    const home = folder.file('new-home');
    const stores = [
      { HOLDFAST_URL: `sqlite:${file}` },
      { HOLDFAST_URL: '', XDG_STATE_HOME: home },
      { HOLDFAST_URL: 'redis://127.0.0.1:1' },
      { HOLDFAST_URL: 'postgres://127.0.0.1:1/x' },
      { HOLDFAST_URL: 'nosuch://x' },
    ];
    const answers = await Promise.all(
      stores.map((store) => holdfast(['complete', 'zsh', '--', 'show', ''], { ...env, ...store })),
    );
    for (const answer of answers) expect(answer).toEqual({ code: 0, stdout: 'words\n', stderr: '' });
    expect([existsSync(file), existsSync(home)]).toEqual([false, false]);
  });

  it('is quoted for bash as the word is that is being typed', () => {
    expect(readLine('holdfast show "a b" c\\ d \'e')).toEqual({
      words: ['holdfast', 'show', 'a b', 'c d', 'e'],
      raw: "'e",
    });
    expect(readLine('holdfast ')).toEqual({ words: ['holdfast', ''], raw: '' });
    const breaks = ' "\'@><=;|&(:';
    expect(forBash('a b:$c', '', breaks)).toBe('a\\ b:\\$c');
    expect(forBash('a:b:c d', 'a:b:', breaks)).toBe('c\\ d');
    expect(forBash('a:b:c', 'a:b:', ' ')).toBe('a:b:c');
    expect(forBash('a b:$c', '"a b:', breaks)).toBe('a b:\\$c');
    expect(forBash("it's", "'i", breaks)).toBeNull();
  });
});

describe.concurrent('completion', () => {
  const shells = [
    ['bash', ['--norc', '--noprofile', '-i'], "PS1='ready> '; source <(holdfast completion bash)"],
    [
      'zsh',
      ['-f', '-i'],
      "PS1='ready> '; autoload -Uz compinit; compinit -D -u; source <(holdfast completion zsh)",
    ],
    [
      'fish',
      ['--no-config', '-i'],
      "function fish_prompt; echo 'ready> '; end; holdfast completion fish | source",
    ],
  ] as const;

  it.concurrent.each(shells)(
    'in a real %s: verbs, options, values, names, commands',
    async (shell, args, setUp) => {
      const file = findProgram({ title: shell, binary: shell, packages: [shell] });
      const home = folder.file(`${shell}-home`);
      await using terminal = await Terminal.start({
        shell: [file, ...args],
        columns: 100,
        env: { ...env, HOME: home, XDG_DATA_HOME: home, XDG_CONFIG_HOME: home },
      });
      writeFileSync(folder.file('a file'), '');
      await terminal.enter(`cd '${folder.file('.')}'; ${setUp}; clear; echo set u""p`);
      await terminal.shows(/set up[\s\S]*ready>/);
      /**
       * Types the text, Tab, and an X, which shows where the completion ends. On a busy machine the
       * store may not answer in time: then Tab is pressed again, as a person would do.
       */
      const completes = async (text: string, whole: string): Promise<void> => {
        await terminal.type(text);
        await eventually(whole, async () => {
          await terminal.press('Tab', 'X');
          if ((await terminal.shows(/ready> holdfast .*X$/m)).includes(`ready> ${whole}X\n`)) return true;
          await terminal.press('BSpace');
          await terminal.hides(/ready> holdfast .*X$/m);
          return false;
        });
        await terminal.press('C-u');
        await terminal.enter('clear');
        await terminal.hides('ready> holdfast');
      };
      await completes('holdfast mig', 'holdfast migrations ');
      await completes('holdfast run x --gr', 'holdfast run x --grace ');
      await completes('holdfast list --use rat', 'holdfast list --use rateLimit ');
      await completes('holdfast show inv', 'holdfast show invoice:2026-11 ');
      await completes('holdfast show invoice:20', 'holdfast show invoice:2026-11 ');
      await completes('holdfast run x -- hold', 'holdfast run x -- holdfast ');
      await completes("holdfast show 'rep", "holdfast show 'report 7' ");
      // The name comes back exactly: what the shell has quoted, the command reads.
      await terminal.type("holdfast show it\\'s");
      await eventually('the name', async () => {
        await terminal.press('Tab', '-');
        if (/trap.*202e.*-$/m.test(await terminal.shows(/ready> holdfast .*-$/m))) return true;
        await terminal.press('BSpace');
        await terminal.hides(/ready> holdfast .*-$/m);
        return false;
      });
      await terminal.enter('-json | head -n 3');
      await terminal.shows(`"name": "it's: a *trap* `);
    },
    // Each Tab starts the command line, some of them several times.
    180_000,
  );

  it.concurrent('scripts are free of syntax errors, and unknown shells are wrong usage', async () => {
    for (const [shell] of shells) {
      const { code, stdout } = await holdfast(['completion', shell], env);
      expect(code).toBe(0);
      const file = folder.file(`script.${shell}`);
      writeFileSync(file, stdout);
      await promisify(execFile)(findProgram({ title: shell, binary: shell, packages: [shell] }), [
        '-n',
        file,
      ]);
    }
    expect(await holdfast(['completion', 'csh'], env)).toMatchObject({ code: 64, stdout: '' });
    expect(await holdfast(['completion'], env)).toMatchObject({ code: 64, stdout: '' });
  });
});
