import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chartsOf } from './charts.ts';
import type { PerformanceData } from './data.ts';
import { performancePage } from './page.ts';

/** The figures of the page, from which a test makes it again. */
export const DATA = 'bench/performance/data.json';
export const PAGE = 'docs/performance.md';
export const IMAGES = 'docs/images';

/** Writes the data, the page and the charts, and removes charts that the page no longer has. */
export function writePerformance(root: string, data: PerformanceData): void {
  for (const folder of [IMAGES, 'bench/performance']) mkdirSync(join(root, folder), { recursive: true });
  for (const name of readdirSync(join(root, IMAGES)))
    if (name.startsWith('performance-')) rmSync(join(root, IMAGES, name));
  writeFileSync(join(root, DATA), `${JSON.stringify(data, null, 2)}\n`);
  writeFileSync(join(root, PAGE), performancePage(data));
  for (const [name, svg] of Object.entries(chartsOf(data))) writeFileSync(join(root, IMAGES, name), svg);
}
