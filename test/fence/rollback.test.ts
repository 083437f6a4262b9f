import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string): string => readFileSync(`${root}/${path}`, 'utf8');
const filesIn = (folder: string): string[] =>
  readdirSync(`${root}/${folder}`, { recursive: true })
    .map((path) => `${folder}/${String(path)}`)
    .filter((path) => /\.(?:md|ts)$/.test(path) && !path.includes('node_modules'));

const BEGINS = /query\('BEGIN'|exec\('BEGIN|beginTransaction\(\);/;
const ROLLS_BACK = /'ROLLBACK'|rollback\(\)/;

/** The code of the pages and of the comments in the sources, and the example programs. */
function examples(): { readonly place: string; readonly text: string }[] {
  const blocks = ['README.md', ...filesIn('docs'), ...filesIn('src')].flatMap((place) =>
    Array.from(read(place).matchAll(/```ts\n(.*?)```/gs), ([, text = '']) => ({ place, text })),
  );
  return [...blocks, ...filesIn('examples').map((place) => ({ place, text: read(place) }))];
}

it('every example that begins a transaction also rolls it back', () => {
  const beginning = examples().filter(({ text }) => BEGINS.test(text));
  expect(beginning.length).toBeGreaterThan(8);
  const committing = beginning.filter(({ text }) => !ROLLS_BACK.test(text));
  expect(committing.map(({ place }) => place)).toEqual([]);
});
