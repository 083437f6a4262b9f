import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { install } from '../../../src/torture/servers/find.ts';

const SCRIPT = fileURLToPath(new URL('../../zookeeper/take-locks.py', import.meta.url));
/** The Python of the distribution, whose packages are used. */
const PYTHON = '/usr/bin/python3';

export type KazooKind = 'Lock' | 'ReadLock' | 'WriteLock';

/** A process that takes locks with kazoo. */
export interface Kazoo {
  /** Resolves when it holds the lock. */
  take(key: string, kind: KazooKind, path: string, identifier?: string): Promise<void>;
  /** One try. */
  try(key: string, kind: KazooKind, path: string): Promise<boolean>;
  release(key: string): Promise<void>;
  isHeld(key: string): boolean;
  stop(): void;
}

/** Python with kazoo; installs the package when that is possible here. */
export function findKazoo(): string {
  const hasKazoo = (): boolean => spawnSync(PYTHON, ['-c', 'import kazoo']).status === 0;
  const failure = hasKazoo() ? undefined : install(['python3', 'python3-kazoo']);
  if (!hasKazoo())
    throw new Error(
      `kazoo is needed. ${failure ?? ''} Install it (Debian, Ubuntu: apt-get install python3-kazoo).`,
    );
  return PYTHON;
}

export async function startKazoo(address: string): Promise<Kazoo> {
  const child: ChildProcess = spawn(findKazoo(), [SCRIPT, address], { stdio: ['pipe', 'pipe', 'inherit'] });
  const held = new Set<string>();
  const awaited = new Map<string, (line: string) => void>();
  const answer = (words: readonly string[]): Promise<string> =>
    new Promise((resolve) => {
      for (const word of words) awaited.set(word, resolve);
    });
  const tell = (...words: string[]): void => void child.stdin?.write(`${words.join('\t')}\n`);
  if (child.stdout === null) throw new Error('no pipe');
  createInterface({ input: child.stdout }).on('line', (line) => {
    const [what, key = ''] = line.split(' ');
    if (what === 'held') held.add(key);
    awaited.get(line)?.(line);
  });
  await answer(['ready']);
  return {
    async take(key, kind, path, identifier) {
      const taken = answer([`held ${key}`]);
      tell('take', key, kind, path, ...(identifier === undefined ? [] : [identifier]));
      await taken;
    },
    async try(key, kind, path) {
      const tried = answer([`yes ${key}`, `no ${key}`]);
      tell('try', key, kind, path);
      return (await tried).startsWith('yes');
    },
    async release(key) {
      const released = answer([`released ${key}`]);
      tell('release', key);
      await released;
      held.delete(key);
    },
    isHeld: (key) => held.has(key),
    stop: () => void child.kill('SIGKILL'),
  };
}
