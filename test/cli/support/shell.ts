import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll } from 'vitest';
import { Terminal, type TerminalOptions } from '../../support/terminal/terminal.ts';
import { holdfastFile } from './holdfast.ts';

const folder = mkdtempSync(join(tmpdir(), 'holdfast-bin-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A PATH on which `holdfast` is the command line as published. */
export async function pathWithHoldfast(): Promise<string> {
  const file = join(folder, 'holdfast');
  writeFileSync(file, `#!/bin/sh\nexec '${process.execPath}' '${await holdfastFile()}' "$@"\n`);
  chmodSync(file, 0o755);
  return `${folder}${delimiter}${process.env.PATH}`;
}

/** A shell in a terminal. It leaves the terminal as each command left it, and prompts with the exit code. */
export async function startShell(
  env: NodeJS.ProcessEnv,
  size: Partial<TerminalOptions> = {},
): Promise<Terminal> {
  const terminal = await Terminal.start({
    shell: ['sh'],
    ...size,
    env: { PATH: await pathWithHoldfast(), ENV: '', NO_COLOR: '', ...env },
  });
  await terminal.enter("PS1='exit $? > '; clear");
  await terminal.shows('exit 0 >');
  return terminal;
}
