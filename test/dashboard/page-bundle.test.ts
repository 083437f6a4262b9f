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
