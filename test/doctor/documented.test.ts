import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import * as scripts from '../../src/generated/redis-scripts.ts';
import { rightsScript } from '../../src/generated/redis-scripts.ts';
import * as redlockScripts from '../../src/generated/redlock-scripts.ts';
import { documentedChecks } from '../support/doctor/documented.ts';

const SOURCES = fileURLToPath(new URL('../../src/', import.meta.url));

/** The checks that the sources name. */
function checksInSources(): string[] {
  const files = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' });
  const names = files
    .filter((file) => file.endsWith('.ts'))
    .map((file) => readFileSync(SOURCES + file, 'utf8'))
    .filter((text) => text.includes('/finding.ts'))
    .flatMap((text) => [...text.matchAll(/(?:runCheck\([\w.]+,\s*|\bcheck: |\beach\()'([a-z-]+)'/g)]);
  return [...new Set(names.map(([, name = '']) => name))].sort();
}

it('every check is documented, and every documented check exists', () => {
  expect(checksInSources().length).toBeGreaterThan(20);
  expect(documentedChecks()).toEqual(checksInSources());
});

it('every command that the scripts run is tried when the rights of a Redis user are checked', () => {
  const commandsIn = (text: string): string[] =>
    [...text.matchAll(/redis\.p?call\('([A-Z]+)'/g)].map(([, command = '']) => command);
  const used = [...Object.values(scripts), ...Object.values(redlockScripts)].flatMap(({ text }) =>
    commandsIn(text),
  );
  const tried = [...rightsScript.text.matchAll(/may\('([A-Z]+)'/g)].map(([, command = '']) => command);
  expect(used.length).toBeGreaterThan(100);
  expect(tried).toEqual(expect.arrayContaining([...new Set(used)]));
});
