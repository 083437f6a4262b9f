import { markdownTable } from '../../test/support/matrix/compatibility-page.ts';
import { chartName } from './charts.ts';
import type { Curves, Latency, Memory, PerformanceData, Waiting } from './data.ts';
import { counted, short } from './svg.ts';
import { peersAhead } from './wins.ts';

export const COMMAND = 'npm run bench -- --write';
const WIDTH_MAX = 156;

/** Lines of at most so many columns. */
export function paragraph(text: string, indent = ''): string {
  const lines: string[] = [];
  for (const word of text.trim().split(/\s+/)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= WIDTH_MAX)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(lines.length === 0 ? word : `${indent}${word}`);
  }
  return lines.join('\n');
}

const image = (topic: string, alt: string, store = ''): string =>
  `![${alt}](images/${chartName(topic, store)})`;

function latencyPart({ store, entries }: Latency): string {
  const floor = entries.find(({ kind }) => kind === 'floor')?.us.p50 ?? Number.NaN;
  const rows = entries.map(({ name, us }) => [
    name,
    ...[us.p50, us.p95, us.p99].map((value) => `${short(value)} µs`),
    `${(us.p50 / floor).toFixed(2)} ×`,
  ]);
  return [`### ${store}`, markdownTable(['', 'p50', 'p95', 'p99', 'p50 to the floor'], rows)].join('\n\n');
}

function curvesPart(
  topic: string,
  unit: string,
  pointUnit: string,
  { store, points, entries }: Curves,
): string {
  const heads = ['', ...points.map((point) => counted(point, pointUnit))];
  const rows = entries.map(({ name, figures }) => [
    name,
    ...figures.map((figure) => `${short(figure)}${unit}`),
  ]);
  return [
    `### ${topic}: ${store}`,
    image(topic.toLowerCase(), `${topic}: ${store}`, store),
    markdownTable(heads, rows),
  ].join('\n\n');
}

function waitingPart({ store, waiters, entries }: Waiting): string {
  const rows = entries.map(({ name, perSecond, connections }) => [
    name,
    short(perSecond),
    String(connections),
  ]);
  const heads = [`${store}, ${waiters} waiters`, 'commands a second', 'connections'];
  return markdownTable(heads, rows);
}

function memoryPart({ store, entries }: Memory): string {
  const rows = entries.map(({ name, holdBytes, waiterBytes, serverHoldBytes, serverWaiterBytes }) => [
    name,
    ...[holdBytes, waiterBytes, serverHoldBytes, serverWaiterBytes].map((bytes) =>
      bytes === null ? '–' : short(Math.max(bytes, 0)),
    ),
  ]);
  const heads = [store, 'heap of a hold', 'heap of a waiter', 'server, a hold', 'server, a waiter'];
  return markdownTable(heads, rows);
}

function aheadPart(data: PerformanceData): string {
  const wins = peersAhead(data);
  if (wins.length === 0) return 'In this run, no peer was ahead in any of the measurements above.';
  return wins.map((win) => paragraph(`- ${win}`, '  ')).join('\n');
}

const INTRO = `
  What a lock costs, compared with other packages and with floors. A floor is the least code that a
  careful person would write with the commands of the same server: scripts are loaded and statements
  are prepared by name. A floor has no renewal and detects no loss; only the floors under "Handoff"
  wait. Servers, clients and workers share one machine: compare within a table, and do not carry the
  figures over to another machine.`;
const HANDOFF = `
  Processes pass one lock around, and each holds it for some milliseconds. Measured is the time from
  the release in one process until another process, which was waiting, holds the lock. The floors
  block in the server: \`BLPOP\` on Redis, and on PostgreSQL \`pg_advisory_lock\` with a connection
  for each waiter.`;
const WAITING = `
  A lock is held, and tasks of one process wait for it. The server counts the commands, also those
  inside scripts. Packages that poll send commands for each waiter. A floor that blocks in the server
  needs a connection for each waiter.`;
const MEMORY = `
  Bytes of each hold, and of each waiter for one lock: the heap of the process after a garbage
  collection, and the memory of the server.`;
const PEERS = `
  The peers on Redis have neither a fence nor a queue. They do less for each lock, and their waiters
  poll. They run at their documented settings, with a TTL of 30 s and without a limit on waiting.`;

/** docs/performance.md. */
export function performancePage(data: PerformanceData): string {
  const parts = [
    '# Performance',
    `<!-- written by \`${COMMAND}\` -->`,
    paragraph(INTRO),
    ...(data.isQuick
      ? ['**These figures come from a quick run that only checks the bench. They are not to be relied on.**']
      : []),
    `\`\`\`sh\n${COMMAND}\n\`\`\``,
    paragraph(
      `Run on ${data.date} in ${short(data.seconds)} s, on ${data.machine}, with ${data.versions.join(', ')}.
      PostgreSQL, MySQL, etcd and ZooKeeper wait for their disk.`,
    ),
    paragraph(PEERS),
    '## A free lock',
    'One task acquires and releases one lock that nobody else wants.',
    image('latency', 'Latency of acquire and release'),
    ...data.latency.map(latencyPart),
    '## Many locks at once',
    'Tasks of one process, each with a lock of its own: pairs of acquire and release a second.',
    ...data.throughput.map((curves) => curvesPart('Throughput', '/s', 'tasks', curves)),
    '## Handoff',
    paragraph(HANDOFF),
    ...data.handoff.map((curves) => curvesPart('Handoff', ' µs', 'waiting', curves)),
    '## While waiting',
    paragraph(WAITING),
    image('waiting', 'Commands a second while waiting'),
    ...data.waiting.map(waitingPart),
    '## Memory',
    paragraph(MEMORY),
    image('memory', 'Heap of each hold and waiter'),
    ...data.memory.map(memoryPart),
    '## Where a peer is ahead',
    aheadPart(data),
  ];
  return `${parts.join('\n\n')}\n`;
}
