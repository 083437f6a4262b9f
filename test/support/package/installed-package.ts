import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { manifest } from './public-entries.ts';
import { makeScratch, repository, stagePackage } from './staged-package.ts';

/** An empty project of another team, into which the packed package was installed. */
export interface InstalledPackage extends Disposable {
  readonly project: string;
  readonly tarball: string;
  /** What the tarball contains. */
  readonly files: readonly string[];
}

/** An entry is written for these, so a project that imports every entry has them. */
const NEEDED_PEERS = ['@opentelemetry/api'];
const CACHE = join(repository, 'node_modules/.cache/holdfast');
const TARBALL = 'holdfast.tgz';
const FILES = 'files.json';

/**
 * Packs and installs as a user would, but with an empty cache and no registry. Dependencies come
 * from the repository; what is optional stays away, so that nothing can come to need it. Test files
 * share the work as long as no source changes.
 */
export function installPackage(): InstalledPackage {
  const shared = join(CACHE, `installed-${hashOfSources()}`);
  const { folder, [Symbol.dispose]: dispose } = makeScratch();
  const project = join(folder, 'project');
  if (!existsSync(shared)) {
    install(folder, project);
    share(project, shared);
  }
  if (!existsSync(project)) cpSync(shared, project, { recursive: true });
  const files = JSON.parse(readFileSync(join(project, FILES), 'utf8'));
  return { project, tarball: join(project, TARBALL), files, [Symbol.dispose]: dispose };
}

function install(folder: string, project: string): void {
  const stage = join(folder, 'stage');
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
  renameSync(join(project, packed.filename), join(project, TARBALL));
  const brought = Object.keys(manifest().dependencies ?? {}).map(
    (name) => [name, `file:${join(repository, 'node_modules', name)}`] as const,
  );
  const somebody = { name: 'another-team', private: true, overrides: Object.fromEntries(brought) };
  writeFileSync(join(project, 'package.json'), JSON.stringify(somebody));
  const peers = NEEDED_PEERS.map((name) => `file:${join(repository, 'node_modules', name)}`);
  npm(project, 'install', `./${TARBALL}`, ...peers, '--omit=optional', '--no-audit', '--no-fund');
  const files = packed.files.map((file: { path: string }) => file.path);
  writeFileSync(join(project, FILES), JSON.stringify(files));
}

/** Of two test files that install at once, the later one finds the folder taken. */
function share(project: string, shared: string): void {
  const own = `${shared}-${process.pid}`;
  cpSync(project, own, { recursive: true });
  for (const name of readdirSync(CACHE)) {
    const isStale = /^installed-[0-9a-f]+$/.test(name) && join(CACHE, name) !== shared;
    if (isStale) rmSync(join(CACHE, name), { recursive: true, force: true });
  }
  try {
    renameSync(own, shared);
  } catch (error) {
    rmSync(own, { recursive: true, force: true });
    if (!existsSync(shared)) throw error;
  }
}

/** Of everything that is packed, and of how it is made. */
function hashOfSources(): string {
  const hash = createHash('sha256');
  const names = readdirSync(repository).filter((name) => /^(?:LICENSE|.*\.(?:json|md))$/.test(name));
  const folders = ['docs', 'scripts', 'src'].flatMap((folder) =>
    readdirSync(join(repository, folder), { recursive: true, encoding: 'utf8' }).map((each) =>
      join(folder, each),
    ),
  );
  for (const path of [...names, ...folders].sort()) {
    if (statSync(join(repository, path)).isFile())
      hash.update(path).update(readFileSync(join(repository, path)));
  }
  return hash.digest('hex').slice(0, 16);
}
