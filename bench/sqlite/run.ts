import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { coldStart } from './cold-start.ts';
import type { Finding } from './measure.ts';
import { handoffs, idle } from './processes.ts';
import { uncontended } from './uncontended.ts';

const folder = mkdtempSync(join(tmpdir(), 'holdfast-bench-'));
const findings: Finding[] = [];
try {
  for (const part of [uncontended, handoffs, idle, coldStart]) findings.push(...(await part(folder)));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
for (const { what, value, target, met } of findings)
  console.log(`${met ? '✔' : '✘'} ${what}: ${value}; target ${target}`);
process.exitCode = findings.every(({ met }) => met) ? 0 : 1;
