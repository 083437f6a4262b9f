import type { Kind, Named } from './data.ts';

/** Charts as SVG text. Colours follow the light or dark scheme of the reader. */

const WIDTH = 860;
const FONT = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const STYLE = `
  text { font: 13px ${FONT}; fill: #24292f; }
  .head { font-weight: 600; font-size: 15px; }
  .group { font-weight: 600; }
  .note { fill: #57606a; font-size: 12px; }
  .end { text-anchor: end; }
  .middle { text-anchor: middle; }
  .page { fill: #ffffff; }
  .grid { stroke: #d0d7de; stroke-width: 1; }
  .holdfast { --ink: #0b61c9; }
  .floor { --ink: #6e7781; }
  .peer0 { --ink: #c2410c; } .peer1 { --ink: #15803d; } .peer2 { --ink: #7e22ce; }
  .peer3 { --ink: #a16207; } .peer4 { --ink: #be185d; }
  .fill { fill: var(--ink); }
  .soft { fill: var(--ink); opacity: 0.55; }
  .stroke { stroke: var(--ink); fill: none; stroke-width: 2; }
  .holdfast.stroke { stroke-width: 3.5; }
  .floor.stroke { stroke-dasharray: 6 4; }
  .second.stroke { stroke-dasharray: 2 4; }
  .mark { stroke: #ffffff; stroke-width: 2.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .note { fill: #9198a1; }
    .page { fill: #0d1117; }
    .grid { stroke: #30363d; }
    .mark { stroke: #0d1117; }
    .holdfast { --ink: #58a6ff; }
    .floor { --ink: #9198a1; }
    .peer0 { --ink: #fb923c; } .peer1 { --ink: #4ade80; } .peer2 { --ink: #c084fc; }
    .peer3 { --ink: #facc15; } .peer4 { --ink: #f472b6; }
  }`;

export interface Chart {
  readonly title: string;
  /** What the axis counts: `µs, logarithmic`. */
  readonly unit: string;
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

type Attributes = Readonly<Record<string, string | number>>;

function element(name: string, attributes: Attributes, content = ''): string {
  const texts = Object.entries(attributes).map(
    ([key, value]) => `${key}="${typeof value === 'number' ? Number(value.toFixed(1)) : escaped(value)}"`,
  );
  return `<${name} ${texts.join(' ')}${content === '' ? '/>' : `>${content}</${name}>`}`;
}

const text = (x: number, y: number, content: string, className = ''): string =>
  element('text', className === '' ? { x, y } : { x, y, class: className }, escaped(content));

function picture({ title, unit }: Chart, height: number, parts: readonly string[]): string {
  const head = element('svg', {
    xmlns: 'http://www.w3.org/2000/svg',
    viewBox: `0 0 ${WIDTH} ${height}`,
    width: WIDTH,
    height,
    role: 'img',
    'aria-label': `${title} (${unit})`,
  }).replace('/>', '>');
  const page = element('rect', { class: 'page', width: WIDTH, height, rx: 6 });
  const heads = [text(16, 26, title, 'head'), text(16, 44, unit, 'note')];
  return [head, `<style>${STYLE}\n</style>`, page, ...heads, ...parts, '</svg>', ''].join('\n');
}

/** `1 task`, `10 tasks`. */
export const counted = (count: number, unit: string): string =>
  `${short(count)} ${count === 1 ? unit.replace(/s$/, '') : unit}`;

/** 3 digits at most: `0.42`, `17`, `1,200`. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return '–';
  const digits = Number.isInteger(value) || Math.abs(value) >= 10 ? 0 : Math.abs(value) >= 1 ? 1 : 2;
  const rounded = Math.abs(value) >= 1_000 ? Number(value.toPrecision(3)) : value;
  return rounded.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** The class of each contender: the same colour in every chart that has the same contenders. */
function classesOf(entries: readonly Named[]): Map<string, string> {
  const numbered = (wanted: Kind): string[] =>
    entries.filter(({ kind }) => kind === wanted).map(({ name }) => name);
  const [peers, floors] = [numbered('peer'), numbered('floor')];
  const classOf = (name: string, kind: Kind): string => {
    if (kind === 'peer') return `peer${peers.indexOf(name) % 5}`;
    return kind === 'floor' && floors.indexOf(name) > 0 ? 'floor second' : kind;
  };
  return new Map(entries.map(({ name, kind }) => [name, classOf(name, kind)]));
}

interface Scale {
  readonly ticks: readonly number[];
  at(value: number): number;
}

/** Powers of ten around the values, and their marks. */
function logScale(values: readonly number[], from: number, to: number): Scale {
  const good = values.filter((value) => value > 0 && Number.isFinite(value));
  const low = Math.floor(Math.log10(Math.min(...good, 1e9)));
  const high = Math.max(Math.ceil(Math.log10(Math.max(...good, 1e-9))), low + 1);
  const at = (value: number): number =>
    from + ((Math.log10(Math.max(value, 10 ** low)) - low) / (high - low)) * (to - from);
  return { ticks: Array.from({ length: high - low + 1 }, (_, n) => 10 ** (low + n)), at };
}

export interface RangeRow extends Named {
  readonly low: number;
  readonly first: number;
  readonly middle: number;
  readonly third: number;
  readonly high: number;
}

const ROW = 24;
const LABELS = 250;
const FIGURES = 70;

/** A line from the lowest to the highest, a bar around the middle, and the middle as a number. */
export function rangeChart(
  chart: Chart,
  groups: readonly { readonly label: string; readonly rows: readonly RangeRow[] }[],
): string {
  const rows = groups.flatMap((group) => group.rows);
  const right = WIDTH - FIGURES;
  const scale = logScale(
    rows.flatMap(({ low, high }) => [low, high]),
    LABELS,
    right,
  );
  const parts: string[] = [];
  let y = 62;
  for (const group of groups) {
    const classes = classesOf(group.rows);
    parts.push(text(16, y + 16, group.label, 'group'));
    y += ROW;
    for (const row of group.rows) {
      const ink = classes.get(row.name) ?? 'floor';
      const middle = y + ROW / 2;
      const [x1, x2] = [scale.at(row.low), scale.at(row.high)];
      const [left, width] = [scale.at(row.first), Math.max(scale.at(row.third) - scale.at(row.first), 3)];
      parts.push(
        text(LABELS - 12, middle + 4, row.name, 'end'),
        element('path', { class: `stroke ${ink}`, d: `M${x1.toFixed(1)} ${middle}H${x2.toFixed(1)}` }),
        element('rect', { class: `fill ${ink}`, x: left, y: middle - 6, width, height: 12, rx: 2 }),
        element('path', { class: 'mark', d: `M${scale.at(row.middle).toFixed(1)} ${middle - 6}v12` }),
        text(right + 10, middle + 4, short(row.middle)),
      );
      y += ROW;
    }
  }
  const grid = scale.ticks.flatMap((tick) => [
    element('path', { class: 'grid', d: `M${scale.at(tick).toFixed(1)} 62V${y + 6}` }),
    text(scale.at(tick), y + 22, short(tick), 'note middle'),
  ]);
  return picture(chart, y + 36, [...grid, ...parts]);
}

export interface LineChart extends Chart {
  /** What the points count: `tasks`. */
  readonly pointUnit: string;
  readonly points: readonly number[];
}

/** A line for each contender, over points that stand at equal distances. */
export function lineChart(
  chart: LineChart,
  entries: readonly (Named & { readonly figures: readonly number[] })[],
): string {
  const [top, bottom, left, right] = [64, 344, 76, WIDTH - 270];
  const scale = logScale(
    entries.flatMap(({ figures }) => figures),
    bottom,
    top,
  );
  const xOf = (n: number): number => left + (n / Math.max(chart.points.length - 1, 1)) * (right - left);
  const classes = classesOf(entries);
  const parts = scale.ticks.flatMap((tick) => [
    element('path', { class: 'grid', d: `M${left} ${scale.at(tick).toFixed(1)}H${right}` }),
    text(left - 8, scale.at(tick) + 4, short(tick), 'note end'),
  ]);
  for (const [n, point] of chart.points.entries())
    parts.push(text(xOf(n), bottom + 20, counted(point, chart.pointUnit), 'note middle'));
  // Those with the most stand first, as their lines end.
  const ordered = [...entries].sort((a, b) => (b.figures.at(-1) ?? 0) - (a.figures.at(-1) ?? 0));
  for (const [n, { name, figures }] of ordered.entries()) {
    const ink = classes.get(name) ?? 'floor';
    const places = figures.map((figure, at) => [xOf(at), scale.at(figure)] as const);
    const d = places.map(([x, y], at) => `${at === 0 ? 'M' : 'L'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');
    const y = top + 8 + n * 24;
    parts.push(
      element('path', { class: `stroke ${ink}`, d }),
      ...places.map(([cx, cy]) => element('circle', { class: `fill ${ink}`, cx, cy, r: 4 })),
      element('path', { class: `stroke ${ink}`, d: `M${right + 24} ${y - 4}h24` }),
      text(right + 56, y, name),
    );
  }
  return picture(chart, bottom + 40, parts);
}

export interface BarRow extends Named {
  readonly figures: readonly number[];
}

/** One bar for each figure of a contender, from zero; the first is solid, the second pale. */
export function barChart(
  chart: Chart & { readonly figures: readonly string[] },
  groups: readonly { readonly label: string; readonly rows: readonly BarRow[] }[],
): string {
  const most = Math.max(...groups.flatMap(({ rows }) => rows.flatMap(({ figures }) => figures)), 1e-9);
  const wide = WIDTH - LABELS - FIGURES - 20;
  const parts: string[] = [];
  let y = 62;
  for (const { label, rows } of groups) {
    const classes = classesOf(rows);
    parts.push(text(16, y + 16, label, 'group'));
    y += ROW;
    for (const { name, figures } of rows) {
      const ink = classes.get(name) ?? 'floor';
      parts.push(text(LABELS - 12, y + 14, name, 'end'));
      for (const [n, figure] of figures.entries()) {
        const width = Math.max((figure / most) * wide, 1);
        parts.push(
          element('rect', {
            class: `${n === 0 ? 'fill' : 'soft'} ${ink}`,
            x: LABELS,
            y: y + 3,
            width,
            height: 14,
          }),
          text(LABELS + width + 8, y + 14, `${short(figure)} ${chart.figures[n] ?? ''}`.trim(), 'note'),
        );
        y += 18;
      }
      y += 6;
    }
  }
  return picture(chart, y + 12, parts);
}
