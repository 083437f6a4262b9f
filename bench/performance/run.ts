// Measures what docs/performance.md shows. `npm run bench -- --write` runs it and writes the page and its
// charts; `--quick` measures for seconds only, to check the bench itself.
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { cpus, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { bundleWithPackages } from '../../test/support/process/compile.ts';
import { serverVersions } from '../../test/support/servers/versions.ts';
import type { Curves, Latency, PerformanceData } from './data.ts';
import { FULL, QUICK } from './effort.ts';
import { handoffs } from './handoff.ts';
import { memory } from './memory.ts';
import { SUBJECTS } from './subjects.ts';
import { latencyOf, throughputOf } from './uncontended.ts';
import { waiting } from './waiting.ts';
import { writePerformance } from './written.ts';

const { values } = parseArgs({
  options: {
    write: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    /** Where `docs` and the data are written; the repository unless set. */
    to: { type: 'string' },
  },
});
const effort = values.quick ? QUICK : FULL;
const root = fileURLToPath(new URL('../..', import.meta.url));
const PACKAGES = ['ioredis', 'pg', 'mysql2', 'etcd3', 'node-zookeeper-client', 'libsql', 'redlock'];
const PEER_PACKAGES = [
  '@sesamecare-oss/redlock',
  'redis-semaphore',
  'redlock-universal',
  '@verrou/core',
  'proper-lockfile',
];
// Each server ends with this process.
process.setMaxListeners(64);
const startedMs = performance.now();
const elapsed = (): string => `${((performance.now() - startedMs) / 1000).toFixed(0).padStart(4)} s`;
const log = (text: string): void => console.log(`${elapsed()}  ${text}`);

function versions(): string[] {
  const packages = [...PACKAGES, ...PEER_PACKAGES].map((name) => {
    const { version } = JSON.parse(readFileSync(join(root, 'node_modules', name, 'package.json'), 'utf8'));
    return `${name} ${String(version).replace(/^v/, '')}`;
  });
  return [`Node.js ${process.versions.node}`, ...serverVersions(), ...packages];
}

function machine(): string {
  const [first] = cpus();
  const gigabytes = Math.round(totalmem() / 2 ** 30);
  const model = first?.model.trim() ?? 'an unknown processor';
  return `${model} (${cpus().length} cores, ${gigabytes} GB, ${type()} ${release()})`;
}

async function uncontended(): Promise<{ latency: Latency[]; throughput: Curves[] }> {
  const latency: Latency[] = [];
  const throughput: Curves[] = [];
  for (const start of SUBJECTS) {
    const subject = await start();
    log(`${subject.store}: a free lock, and many at once`);
    latency.push(await latencyOf(subject, effort));
    throughput.push(await throughputOf(subject, effort));
    await subject.stop();
  }
  return { latency, throughput };
}

async function measureAll(folder: string): Promise<PerformanceData> {
  const worker = (name: string): string => {
    const outfile = join(folder, `${name.replaceAll('/', '-')}.mjs`);
    bundleWithPackages(join(root, 'bench', `${name}.ts`), outfile);
    return outfile;
  };
  const free = await uncontended();
  log('handoff');
  const workers = { redis: worker('redis/handoff-worker'), postgres: worker('postgres/handoff-worker') };
  const handoff = await handoffs(effort, workers);
  log('while waiting');
  const whileWaiting = await waiting(effort);
  log('memory');
  const figures = await memory(effort, worker('performance/memory-worker'));
  return {
    date: new Date().toISOString().slice(0, 10),
    isQuick: values.quick,
    seconds: Math.round((performance.now() - startedMs) / 1000),
    machine: machine(),
    versions: versions(),
    ...free,
    handoff,
    waiting: whileWaiting,
    memory: figures,
  };
}

// Inside the repository, where the workers find the libraries.
mkdirSync(join(root, '.tmp'), { recursive: true });
const folder = mkdtempSync(join(root, '.tmp/performance-'));
try {
  const data = await measureAll(folder);
  if (values.write) writePerformance(values.to ?? root, data);
  else console.log(JSON.stringify(data, null, 2));
  log(values.write ? 'written' : 'measured');
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exit();
