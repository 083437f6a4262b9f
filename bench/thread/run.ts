// What renewals in a thread cost an uncontended acquire and release, against renewals inline: of
// stores beside the thread, and of stores that live in the thread with their connections. Exits with 1
// when a target is missed.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openLocks } from 'holdfast';
import { startBackend } from '../../src/torture/backends/start-backend.ts';
import { alternate, middle, misses, report } from '../redis/measure.ts';

const ROUNDS = 41;
const PAIRS = 100;
const RATIO_MAX = 1.5;

async function compare(what: string, url: string): Promise<void> {
  const [inline, thread] = await Promise.all([openLocks(url), openLocks(url, { renewal: 'thread' })]);
  const results = await alternate([inline, thread], ROUNDS, async (locks) => {
    const mutex = locks.mutex('bench');
    const samples: number[] = [];
    for (let pair = 0; pair < PAIRS; pair += 1) {
      const startedMs = performance.now();
      await (await mutex.acquire()).release();
      samples.push((performance.now() - startedMs) * 1_000);
    }
    return samples;
  });
  const [inlineUs, threadUs] = [inline, thread].map((locks) => middle(results.get(locks) ?? []));
  console.log(`${what}: inline ${inlineUs?.toFixed(1)} µs, thread ${threadUs?.toFixed(1)} µs`);
  report(`${what}, thread / inline`, (threadUs ?? 0) / (inlineUs ?? 0), { atMost: RATIO_MAX });
  await Promise.all([inline.close(), thread.close()]);
}

const folder = mkdtempSync(join(tmpdir(), 'holdfast-bench-'));
const kinds = ['redis', 'redlock', 'postgres', 'etcd', 'zookeeper'] as const;
const backends = await Promise.all(kinds.map((kind) => startBackend(kind)));
try {
  await compare('sqlite', `sqlite:${join(folder, 'locks.db')}`);
  for (const { kind, url } of backends) {
    // Its leases are measured as Redis: beside the thread.
    const [what, measured] =
      kind === 'postgres' ? ['advisory', url.replace('lease', 'advisory')] : [kind, url];
    await compare(what, measured);
  }
} finally {
  await Promise.all(backends.map((backend) => backend.stop()));
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = misses() === 0 ? 0 : 1;
