import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { chartsOf } from '../../bench/performance/charts.ts';
import { distributionOf, type PerformanceData } from '../../bench/performance/data.ts';
import { COMMAND, performancePage } from '../../bench/performance/page.ts';
import { peersAhead } from '../../bench/performance/wins.ts';
import { DATA, IMAGES, PAGE } from '../../bench/performance/written.ts';
import { repository } from '../support/package/staged-package.ts';

const read = (path: string): string => readFileSync(join(repository, path), 'utf8');

const SAMPLES = distributionOf([10, 20, 30, 40, 50]);
const DATA_OF_TEST: PerformanceData = {
  date: '2026-01-02',
  isQuick: false,
  seconds: 400,
  machine: 'a machine <of & ours>',
  versions: ['Node.js 20.1.2'],
  latency: [
    {
      store: 'Redis',
      entries: [
        { name: 'floor: SET', kind: 'floor', us: SAMPLES },
        { name: 'holdfast', kind: 'holdfast', us: { ...SAMPLES, p50: 33 } },
        { name: 'peer <a>', kind: 'peer', us: { ...SAMPLES, p50: 31 } },
        { name: 'peer b', kind: 'peer', us: { ...SAMPLES, p50: 60 } },
      ],
    },
  ],
  throughput: [
    {
      store: 'PostgreSQL leases',
      points: [1, 100],
      entries: [
        { name: 'holdfast', kind: 'holdfast', figures: [100, 9_000] },
        { name: 'peer b', kind: 'peer', figures: [200, 1_000] },
      ],
    },
  ],
  handoff: [
    { store: 'Redis', points: [1], entries: [{ name: 'holdfast', kind: 'holdfast', figures: [400] }] },
  ],
  waiting: [
    {
      store: 'Redis',
      waiters: 50,
      entries: [{ name: 'holdfast', kind: 'holdfast', perSecond: 0, connections: 2 }],
    },
  ],
  memory: [
    {
      store: 'Redis',
      holds: 10,
      waiters: 10,
      entries: [
        {
          name: 'holdfast',
          kind: 'holdfast',
          holdBytes: 900,
          waiterBytes: 800,
          serverHoldBytes: 100,
          serverWaiterBytes: 200,
        },
      ],
    },
  ],
};

/** The tags that are open at the end, and those that close what is not open. */
function unbalanced(svg: string): string[] {
  const open: string[] = [];
  for (const [, closing, name = '', single] of svg.matchAll(/<(\/?)(\w+)[^<>]*?(\/?)>/g)) {
    if (single === '/') continue;
    if (closing === '') open.push(name);
    else if (open.pop() !== name) return [`</${name}>`];
  }
  return open;
}

describe('docs/performance.md', () => {
  const data = JSON.parse(read(DATA)) as PerformanceData;

  it('names the command that writes it, the machine and the versions', () => {
    const page = read(PAGE);
    expect(page).toContain(`\`\`\`sh\n${COMMAND}\n\`\`\``);
    const words = page.replaceAll(/\s+/g, ' ');
    for (const text of [data.machine, data.date, ...data.versions]) expect(words).toContain(text);
  });

  it('and its charts are what the renderer makes of the measurements', () => {
    expect(performancePage(data)).toBe(read(PAGE));
    const charts = chartsOf(data);
    const files = readdirSync(join(repository, IMAGES)).filter((name) => name.startsWith('performance-'));
    expect(files.sort()).toEqual(Object.keys(charts).sort());
    for (const [name, svg] of Object.entries(charts)) expect(read(join(IMAGES, name))).toBe(svg);
  });

  it('measures what it promises, beside a floor and beside peers', () => {
    for (const all of [data.latency, data.throughput, data.handoff, data.waiting, data.memory]) {
      const kinds = new Set(all.flatMap(({ entries }) => entries.map(({ kind }) => kind)));
      expect([...kinds].sort()).toEqual(['floor', 'holdfast', 'peer']);
    }
    expect(data.latency.map(({ store }) => store)).toHaveLength(8);
  });
});

describe('the renderer', () => {
  it('makes charts that are well-formed, name every contender and follow the colour scheme', () => {
    const charts = Object.entries(chartsOf(DATA_OF_TEST));
    expect(charts.map(([name]) => name)).toEqual([
      'performance-latency.svg',
      'performance-throughput-postgresql-leases.svg',
      'performance-handoff-redis.svg',
      'performance-waiting.svg',
      'performance-memory.svg',
    ]);
    for (const [name, svg] of charts) {
      expect([name, unbalanced(svg)]).toEqual([name, []]);
      expect(svg).toContain('prefers-color-scheme: dark');
      expect(svg).toContain('>holdfast</text>');
      expect(svg).not.toMatch(/NaN|Infinity|undefined/);
    }
    expect(charts[0]?.[1]).toContain('>peer &lt;a&gt;</text>');
  });

  it('says where a peer is ahead, and by how much', () => {
    expect(peersAhead(DATA_OF_TEST)).toEqual([
      'A free lock on Redis, p50: peer <a> 31 µs; Holdfast 33 µs.',
      'Throughput on PostgreSQL leases with 1 task: peer b 200 pairs/s; Holdfast 100 pairs/s.',
    ]);
    expect(performancePage(DATA_OF_TEST)).toContain('- A free lock on Redis, p50: peer <a> 31 µs');
    const alone = DATA_OF_TEST.latency.map((each) => ({ ...each, entries: each.entries.slice(0, 2) }));
    const page = performancePage({ ...DATA_OF_TEST, latency: alone, throughput: [] });
    expect(page).toContain('no peer was ahead');
  });

  it('warns of the figures of a quick run', () => {
    expect(performancePage(DATA_OF_TEST)).not.toContain('quick run');
    expect(performancePage({ ...DATA_OF_TEST, isQuick: true })).toContain('quick run');
  });
});
