import { readFileSync } from 'node:fs';

const PAGE = new URL('../../../docs/doctor.md', import.meta.url);

/** The checks in the tables of docs/doctor.md, sorted. */
export function documentedChecks(): string[] {
  const rows = readFileSync(PAGE, 'utf8').matchAll(/^\| `([a-z]+(?:-[a-z]+)+)` /gm);
  return [...rows].map(([, check = '']) => check).sort();
}
