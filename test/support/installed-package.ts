import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { manifest } from './public-entries.ts';
import { makeScratch, repository, stagePackage } from './staged-package.ts';

/** An empty project of somebody else, into which the packed package was installed. */
export interface InstalledPackage extends Disposable {
  readonly project: string;
  readonly tarball: string;
  /** What the tarball contains. */
  readonly files: readonly string[];
}

/**
 * Packs and installs as a user would, but with an empty cache and no registry. What the package brings along comes from the repository;
 * what is optional stays away, so that nothing can come to need it.
 */
export function installPackage(): InstalledPackage {
  const { folder, [Symbol.dispose]: dispose } = makeScratch();
  const [stage, project] = [join(folder, 'stage'), join(folder, 'project')];
  for (const each of [stage, project]) mkdirSync(each);
  stagePackage(stage);
  const npm = (cwd: string, ...args: string[]): string =>
    execFileSync('npm', [...args, '--offline', '--cache', join(folder, 'cache'), '--loglevel=error'], {
      cwd,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
  // Without its own build, which would only write the repository's dist once more.
  const [packed] = JSON.parse(
    npm(stage, 'pack', '--json', '--ignore-scripts', '--pack-destination', project),
  );
  const brought = Object.keys(manifest().dependencies ?? {}).map(
    (name) => [name, `file:${join(repository, 'node_modules', name)}`] as const,
  );
  const somebody = { name: 'somebody', private: true, overrides: Object.fromEntries(brought) };
  writeFileSync(join(project, 'package.json'), JSON.stringify(somebody));
  npm(project, 'install', `./${packed.filename}`, '--omit=optional', '--no-audit', '--no-fund');
  return {
    project,
    tarball: join(project, packed.filename),
    files: packed.files.map((file: { path: string }) => file.path),
    [Symbol.dispose]: dispose,
  };
}
