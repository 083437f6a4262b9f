import { turnsIn } from './checks.ts';
import { PLANS, type Told } from './story.ts';

const WIDTH = 860;
const LEFT = 70;
const RIGHT = 16;
const TOP = 46;
const ROW = 30;
const BAR = 16;

/** Readable on a light and on a dark page. The kinds differ in shape and text, not in colour alone. */
const STYLE = `
  text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #1f2328; }
  .dim { fill: #59636e; font-size: 12px; }
  .holds { fill: #1a7f37; } .waits { stroke: #9a6700; stroke-width: 2; stroke-dasharray: 2 5; }
  .paused { fill: #cf222e; fill-opacity: 0.25; stroke: #cf222e; }
  .mark { stroke: #cf222e; stroke-width: 2.5; }
  .axis { stroke: #d1d9e0; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .dim { fill: #9198a1; } .holds { fill: #3fb950; } .waits { stroke: #d29922; }
    .paused { fill: #f85149; fill-opacity: 0.25; stroke: #f85149; } .mark { stroke: #f85149; }
    .axis { stroke: #3d444d; }
  }`;

/** The chart of the demo as a picture: a row for each worker. */
export function timelineSvg(story: readonly Told[]): string {
  const startMs = Math.min(...story.map(({ atMs }) => atMs));
  const endMs = Math.max(...story.map(({ atMs }) => atMs));
  const x = (ms: number): number =>
    Math.round(LEFT + ((ms - startMs) / (endMs - startMs)) * (WIDTH - LEFT - RIGHT));
  const height = TOP + PLANS.length * ROW + 34;
  const rows = PLANS.map(({ worker }, n) => rowOf(story, worker, TOP + n * ROW + ROW / 2, x));
  const seconds = `${((endMs - startMs) / 1000).toFixed(1)} s`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img"
  aria-label="Five workers take one lock in turn. One is killed, one is paused: its late write is refused">
<style>${STYLE}
</style>
${legend()}
${rows.join('\n')}
<line class="axis" x1="${LEFT}" y1="${height - 28}" x2="${WIDTH - RIGHT}" y2="${height - 28}"/>
<text class="dim" x="${LEFT}" y="${height - 10}">0 s</text>
<text class="dim" x="${WIDTH - RIGHT}" y="${height - 10}" text-anchor="end">${seconds}</text>
</svg>
`;
}

function legend(): string {
  const y = 20;
  return [
    `<rect class="holds" x="${LEFT}" y="${y - 11}" width="22" height="12" rx="2"/>`,
    `<text x="${LEFT + 30}" y="${y}">holds</text>`,
    `<line class="waits" x1="${LEFT + 90}" y1="${y - 5}" x2="${LEFT + 116}" y2="${y - 5}"/>`,
    `<text x="${LEFT + 124}" y="${y}">waits</text>`,
    `<rect class="paused" x="${LEFT + 184}" y="${y - 11}" width="22" height="12" rx="2"/>`,
    `<text x="${LEFT + 214}" y="${y}">paused</text>`,
    `${cross(LEFT + 290, y - 5)}<text x="${LEFT + 304}" y="${y}">killed</text>`,
    `${flag(LEFT + 370, y - 5)}<text x="${LEFT + 384}" y="${y}">late write refused</text>`,
  ].join('\n');
}

const cross = (x: number, y: number): string =>
  `<path class="mark" d="M${x - 6} ${y - 6}l12 12m0 -12l-12 12"/>`;

const flag = (x: number, y: number): string => `<path class="mark" d="M${x} ${y - 8}v10m0 4v3"/>`;

function rowOf(story: readonly Told[], worker: string, y: number, x: (ms: number) => number): string {
  const own = story.filter((told) => told.worker === worker);
  const parts = [`<text x="12" y="${y + 4}">${worker}</text>`];
  const bar = (kind: string, fromMs: number, toMs: number): string => {
    const width = Math.max(x(toMs) - x(fromMs), 2);
    const place = `x="${x(fromMs)}" y="${y - BAR / 2}" width="${width}" height="${BAR}"`;
    return `<rect class="${kind}" ${place} rx="2"/>`;
  };
  for (const [n, told] of own.entries()) {
    const next = own[n + 1];
    if (told.what !== 'waits' || next === undefined) continue;
    parts.push(`<line class="waits" x1="${x(told.atMs)}" y1="${y}" x2="${x(next.atMs)}" y2="${y}"/>`);
  }
  for (const turn of turnsIn(story)) {
    if (turn.worker === worker) parts.push(bar('holds', turn.fromMs, turn.toMs));
  }
  const resumed = own.find(({ what }) => what === 'resumed');
  for (const { what, atMs } of own) {
    if (what === 'paused' && resumed !== undefined) parts.push(bar('paused', atMs, resumed.atMs));
    if (what === 'killed') parts.push(cross(x(atMs) + 8, y));
    if (what === 'refused') parts.push(flag(x(atMs) + 4, y));
  }
  return parts.join('\n');
}
