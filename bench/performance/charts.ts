import type { Curves, PerformanceData } from './data.ts';
import { barChart, lineChart, rangeChart } from './svg.ts';

/** The name of a file under docs/images, and its SVG. */
export type Charts = Readonly<Record<string, string>>;

/** `performance-throughput-postgresql-leases.svg` */
export const chartName = (topic: string, store = ''): string =>
  `performance-${[topic, ...store.toLowerCase().split(/\W+/)].filter((part) => part !== '').join('-')}.svg`;

function latencyChart({ latency }: PerformanceData): Charts {
  const groups = latency.map(({ store, entries }) => ({
    label: store,
    rows: entries.map(({ name, kind, us }) => {
      return { name, kind, low: us.p5, first: us.p25, middle: us.p50, third: us.p75, high: us.p99 };
    }),
  }));
  const title = 'Acquire and release a free lock';
  const unit = 'µs, logarithmic: bar p25 to p75 with the median, line p5 to p99';
  return { [chartName('latency')]: rangeChart({ title, unit }, groups) };
}

function curveCharts(topic: string, all: readonly Curves[], texts: Readonly<Record<string, string>>): Charts {
  const { title = '', unit = '', pointUnit = '' } = texts;
  const charts = all.map(({ store, points, entries }) => [
    chartName(topic, store),
    lineChart({ title: `${title}: ${store}`, unit, pointUnit, points }, entries),
  ]);
  return Object.fromEntries(charts);
}

function waitingChart({ waiting }: PerformanceData): Charts {
  const groups = waiting.map(({ store, waiters, entries }) => ({
    label: `${store}, ${waiters} waiters`,
    rows: entries.map(({ name, kind, perSecond }) => ({ name, kind, figures: [perSecond] })),
  }));
  const title = 'What waiting costs the server';
  const unit = 'commands or statements a second while the lock is held by another';
  return { [chartName('waiting')]: barChart({ title, unit, figures: [''] }, groups) };
}

function memoryChart({ memory }: PerformanceData): Charts {
  const groups = memory.map(({ store, holds, waiters, entries }) => ({
    label: `${store}, ${holds.toLocaleString('en-US')} holds and ${waiters.toLocaleString('en-US')} waiters`,
    rows: entries.map(({ name, kind, holdBytes, waiterBytes }) => {
      return { name, kind, figures: [holdBytes, ...(waiterBytes === null ? [] : [waiterBytes])] };
    }),
  }));
  const title = 'Memory of the process';
  const unit = 'bytes of heap for each hold (solid) and for each waiter (pale)';
  return { [chartName('memory')]: barChart({ title, unit, figures: ['hold', 'waiter'] }, groups) };
}

export function chartsOf(data: PerformanceData): Charts {
  const throughput = {
    title: 'Throughput',
    unit: 'pairs of acquire and release a second, logarithmic; each task has a lock of its own',
    pointUnit: 'tasks',
  };
  const handoff = {
    title: 'Handoff',
    unit: 'µs from the release in one process to the hold in the next, logarithmic; median',
    pointUnit: 'waiting',
  };
  return {
    ...latencyChart(data),
    ...curveCharts('throughput', data.throughput, throughput),
    ...curveCharts('handoff', data.handoff, handoff),
    ...waitingChart(data),
    ...memoryChart(data),
  };
}
