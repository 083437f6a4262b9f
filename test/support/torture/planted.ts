import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Verdict } from '../../../src/torture/checks/verdict.ts';

/** Adapters with one mistake each, in `test/torture/planted/`, and the property that shows the mistake. */
export const PLANTED: Readonly<Record<string, string>> = {
  'plain-delete': 'exclusion',
  'check-then-set': 'exclusion',
  'late-deadline': 'exclusion',
  'wall-clock': 'exclusion',
  'token-cleared': 'handoff time',
  'renewal-creates': 'exclusion',
  'no-recheck': 'exclusion',
  'message-only': 'lost wake-ups',
  'endless-renewal': 'lost wake-ups',
  'pooled-session': 'exclusion',
  'ghost-node': 'lost wake-ups',
  'fence-expires': 'fence order',
  'fence-in-memory': 'fence order',
  'voted-fence': 'fence order',
  'no-deadline': 'exclusion',
  'no-ttl': 'lost wake-ups',
  unhandled: 'unhandled rejections',
  'silent-exit': 'process exits',
  unfair: 'first come, first served',
  leaking: 'leaks',
  'reader-counts': 'capacity',
};

/** Nothing is planted in it. */
export const RIGHT = 'correct';

export interface PlantedRun {
  readonly name: string;
  readonly seed: number;
  /** The properties that were violated; `null` when the run itself failed. */
  readonly violated: readonly string[] | null;
  readonly text: string;
}

/** Puts one adapter through the command line of the build in this folder. */
export async function runPlanted(
  root: string,
  dist: string,
  name: string,
  { seed, minutes }: { readonly seed: number; readonly minutes: number },
): Promise<PlantedRun> {
  const file = join(root, 'test/torture/planted', `${name}.mjs`);
  const server = /server: (\S+)/.exec(readFileSync(file, 'utf8'))?.[1] ?? 'redis';
  const args = [
    'torture',
    file,
    '--server',
    server,
    '--minutes',
    `${minutes}`,
    '--seed',
    `${seed}`,
    '--json',
  ];
  const child = spawn(process.execPath, [join(dist, 'cli/main.js'), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (data: Buffer) => {
    stdout += data.toString();
  });
  child.stderr.on('data', (data: Buffer) => {
    stderr += data.toString();
  });
  await new Promise((resolve) => child.once('close', resolve));
  try {
    const { verdicts, operations } = JSON.parse(stdout) as { verdicts: Verdict[]; operations: number };
    const violated = verdicts.filter(({ result }) => result === 'violated');
    const text = [
      `${operations} operations`,
      ...violated.map(({ property, detail }) => `${property}: ${detail}`),
    ];
    return { name, seed, violated: violated.map(({ property }) => property), text: text.join(' | ') };
  } catch {
    return { name, seed, violated: null, text: stderr.trim() };
  }
}
