import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { dashboardPage } from '../../scripts/dashboard-page.mjs';
import { repositoryFiles } from '../support/tidy/file.ts';

const { script, style } = dashboardPage();

describe('the page of the dashboard', () => {
  it('is under 60 kB gzipped in all', () => {
    const bytes = gzipSync(script).length + gzipSync(style).length;
    expect(bytes).toBeGreaterThan(20_000);
    expect(bytes).toBeLessThan(60_000);
  });

  it('comes with the licences of what is bundled into it', () => {
    const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
    const notices = read('THIRD-PARTY-NOTICES.txt').replace(/\s+/g, ' ');
    const imported = new Set(
      repositoryFiles('src/dashboard/page').flatMap(({ text }) =>
        [...text.matchAll(/from '([a-z][^/']*)/g)].map(([, name = '']) => name),
      ),
    );
    expect([...imported].sort()).toEqual(['preact', 'uplot']);
    for (const name of imported)
      expect(notices).toContain(read(`node_modules/${name}/LICENSE`).replace(/\s+/g, ' ').trim());
    const { files } = JSON.parse(read('package.json')) as { files: readonly string[] };
    expect(files).toContain('THIRD-PARTY-NOTICES.txt');
    for (const text of [script, style]) expect(text).toContain('Jason Miller');
  });

  it('names no address on the network but the namespaces of XML', () => {
    const addresses = [...`${script}${style}`.matchAll(/(?:https?:)?\/\/[a-z0-9-]+\.[a-z]+[^"'`)\s]*/gi)];
    const elsewhere = addresses.map(([address]) => address).filter((each) => !each.includes('www.w3.org/'));
    expect(elsewhere).toEqual([]);
  });

  it('has no way by which a text becomes code or elements', () => {
    expect(/\beval\(|new Function\(|document\.write/.test(script)).toBe(false);
    const sources = repositoryFiles('src/dashboard/page');
    expect(sources.length).toBeGreaterThan(20);
    const unsafe = /innerHTML|outerHTML|insertAdjacentHTML|DOMParser|createContextualFragment|srcdoc/i;
    expect(sources.filter(({ text }) => unsafe.test(text)).map(({ path }) => path)).toEqual([]);
  });
});
