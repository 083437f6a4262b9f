import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeScratch, stagePackage } from './staged-package.ts';

/** An empty project of somebody else, into which the packed package was installed. */
export interface InstalledPackage extends Disposable {
  readonly project: string;
  readonly tarball: string;
  /** What the tarball contains. */
  readonly files: readonly string[];
}

function npm(cwd: string, ...args: string[]): string {
  return execFileSync('npm', [...args, '--offline', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

/** Packs and installs as a user would, without a registry: the package has no dependencies that it brings itself. */
export function installPackage(): InstalledPackage {
  const scratch = makeScratch();
  const [stage, project] = ['stage', 'project'].map((name) => join(scratch.folder, name)) as [string, string];
  for (const folder of [stage, project]) mkdirSync(folder);
  stagePackage(stage);
  // Its own build would only write the repository's dist once more.
  const [packed] = JSON.parse(
    npm(stage, 'pack', '--json', '--ignore-scripts', '--pack-destination', project),
  );
  writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'somebody', private: true }));
  npm(project, 'install', `./${packed.filename}`);
  return {
    project,
    tarball: join(project, packed.filename),
    files: packed.files.map((file: { path: string }) => file.path),
    [Symbol.dispose]: () => scratch[Symbol.dispose](),
  };
}
