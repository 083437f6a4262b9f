import { chmodSync, writeFileSync } from 'node:fs';
import { delimiter } from 'node:path';
import { holdfastFile } from '../../cli/support/holdfast.ts';
import type { TemporaryFolder } from '../../sqlite/support/folder.ts';

/** The `PATH` of a shell in which `holdfast` is the command line of this repository. */
export async function pathWithHoldfast(folder: TemporaryFolder): Promise<string> {
  const script = `#!/bin/sh\nexec "${process.execPath}" "${await holdfastFile()}" "$@"\n`;
  writeFileSync(folder.file('holdfast'), script);
  chmodSync(folder.file('holdfast'), 0o755);
  return `${folder.path}${delimiter}${process.env.PATH}`;
}
