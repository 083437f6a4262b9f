import { existsSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { at, type Check, root, type TidyFile } from './file.ts';

const isProse = (path: string): boolean => path.endsWith('.md') && !path.includes('node_modules/');

/** Samples are assembled, so that this file does not violate its own rules. */
const samplePath = (...parts: string[]): string => ['', ...parts, 'x'].join('/');
const markers = [
  ['TO', 'DO'],
  ['FIX', 'ME'],
  ['X', 'XX'],
  ['HA', 'CK'],
].map((halves) => halves.join(''));

function matches(file: TidyFile, pattern: RegExp, problemOf: (found: string) => string): string[] {
  return [...file.text.matchAll(pattern)].map((match) => at(file, match.index, problemOf(match[0])));
}

const machinePaths: Check = {
  rule: 'no path of one machine',
  covers: () => true,
  find: (file) =>
    matches(
      file,
      /(?<![\w.~})\]/-])(?:\/(?:work|root|tmp|home\/[\w-]+|Users\/[\w-]+)\/|[A-Z]:\\+Users\\)/g,
      (found) => `${found} is a path of one machine`,
    ),
  bad: { path: 'docs/a.md', text: `Open ${samplePath('home', 'ann')} first.` },
  good: { path: 'docs/a.md', text: 'See https://example.org/tmp/x and ./work/tmp/x and /usr/bin/env.' },
};

const noMarkers: Check = {
  rule: 'nothing is left for later',
  covers: (path) => path !== 'package-lock.json',
  find: (file) =>
    matches(file, new RegExp(`\\b(?:${markers.join('|')})\\b`, 'g'), (found) => `${found} marker`),
  bad: { path: 'src/a.ts', text: `// ${markers[0]}: later` },
  good: { path: 'src/a.ts', text: 'const todo = 1; // Hacks and todos in lower case are words.' },
};

/** A lock file that names a registry cannot be installed from another one. */
const lockHosts: Check = {
  rule: 'the lock names no registry',
  covers: (path) => path === 'package-lock.json',
  find: (file) => matches(file, /"resolved": *"\w+:\/\/[^"]*"/g, (found) => found),
  bad: { path: 'package-lock.json', text: '"resolved": "https://registry.example/a.tgz"' },
  good: { path: 'package-lock.json', text: '"url": "https://example.org/sponsor"' },
};

interface Locked {
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/**
 * `npm ci` refuses a lock in which a package for another platform is missing, and a mirror that has
 * not got it leaves it out.
 */
const lockComplete: Check = {
  rule: 'the lock has the packages of every platform',
  covers: (path) => path === 'package-lock.json',
  find: (file) => {
    const packages: Record<string, Locked> = JSON.parse(file.text).packages;
    return Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies)
        .filter((name) => !isLocked(packages, path, name))
        .map((name) => `${file.path}: ${name}, an optional part of ${path}, is missing`),
    );
  },
  bad: {
    path: 'package-lock.json',
    text: '{"packages":{"node_modules/a":{"optionalDependencies":{"b":"1.0.0"}}}}',
  },
  good: {
    path: 'package-lock.json',
    text: '{"packages":{"node_modules/a":{"optionalDependencies":{"b":"1.0.0"}},"node_modules/b":{}}}',
  },
};

function isLocked(packages: Record<string, Locked>, from: string, name: string): boolean {
  for (let path = from; ; path = path.slice(0, Math.max(path.lastIndexOf('/node_modules/'), 0))) {
    if (packages[`${path === '' ? '' : `${path}/`}node_modules/${name}`] !== undefined) return true;
    if (path === '') return false;
  }
}

/** The text of a page with spaces instead of its fenced code. */
export const withoutFences = (text: string): string =>
  text.replace(/^```[\s\S]*?^```/gm, (fence) => fence.replace(/[^\n]/g, ' '));

/** The anchors that GitHub gives to the headings of a page. */
export function anchorsOf(text: string): Set<string> {
  const headings = [...withoutFences(text).matchAll(/^#+ +(.*)$/gm)].map((match) => match[1] ?? '');
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, '')
        .replace(/\s/g, '-'),
    ),
  );
}

/** `page`: the text of a file, or `undefined` when there is none; a folder has the text `''`. */
export function links(page: (path: string) => string | undefined): Check {
  return {
    rule: 'relative links lead somewhere',
    covers: isProse,
    find: (file) =>
      [...withoutFences(file.text).matchAll(/\]\(([^)\s]+)\)/g)].flatMap((match) => {
        const link = match[1] ?? '';
        if (/^[a-z][a-z+.-]*:/i.test(link)) return [];
        const [to = '', anchor] = link.split('#');
        const target = to === '' ? file.text : page(normalize(join(dirname(file.path), to)));
        if (target === undefined) return [at(file, match.index, `${link} leads nowhere`)];
        const isFound = anchor === undefined || anchorsOf(target).has(anchor);
        return isFound ? [] : [at(file, match.index, `${link}: no such heading`)];
      }),
    bad: { path: 'README.md', text: '# A\n\nSee [a](#a) and [the tests](tset/).' },
    good: {
      path: 'README.md',
      text: '# A b\n\nSee [a](#a-b), [it](package.json) and [that](https://example.org/x).',
    },
  };
}

export const isThere = (path: string): string | undefined => (existsSync(join(root, path)) ? '' : undefined);

export const textChecks: readonly Check[] = [machinePaths, noMarkers, lockHosts, lockComplete];
